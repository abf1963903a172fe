// A load test of chat completions for people who have k6 already.
//
//   k6 run -e BASE_URL=http://127.0.0.1:8000/v1 -e MODEL=wafer-750 -e VUS=20 -e DURATION=30s \
//     loadtest/paceline_loadtest/scale/k6.js
//
// What k6 can't do: its http module reads a body to its end before a script sees any of it. So a
// token's own time of arrival isn't known, and these figures stand in for it:
//
//   ttfb          until the answer's first byte (k6's `timings.waiting`). A server that sends its
//                 headers with the first token, as Paceline does for chat, makes that the TTFT. One
//                 that sends them at once makes it a round trip, and says nothing of a model.
//   tpot_mean     the time of receiving over the tokens less one: the mean pace of a whole stream.
//                 Gaps between tokens, stalls and bursts can't be seen.
//   server_ttft   what Paceline says of itself in `Server-Timing`, to hold beside `ttfb`.
//
// For first tokens as a client sees them use Locust (loadtest/paceline_loadtest/scale/locustfile.py), or the load test of
// Paceline's own.

import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const BASE_URL = (__ENV.BASE_URL || 'http://127.0.0.1:8000/v1').replace(/\/$/, '');
const MODEL = __ENV.MODEL || 'wafer-750';
const TIER = __ENV.TIER || '';
const API_KEY = __ENV.API_KEY || 'paceline';
const OUTPUT_TOKENS = Number(__ENV.OUTPUT_TOKENS || 200);
const PROMPT_WORDS = Number(__ENV.PROMPT_WORDS || 200);
// Other servers than Paceline know no `paceline` field.
const OTHER_SERVER = Boolean(__ENV.OTHER_SERVER);

export const options = {
  scenarios: {
    chat: {
      executor: 'constant-vus',
      vus: Number(__ENV.VUS || 10),
      duration: __ENV.DURATION || '30s',
    },
  },
  thresholds: {
    failed: ['rate==0'],
  },
};

const ttfb = new Trend('ttfb', true);
const serverTtft = new Trend('server_ttft', true);
const tpotMean = new Trend('tpot_mean', true);
const e2e = new Trend('e2e', true);
const outputTokens = new Counter('output_tokens');
const failed = new Rate('failed');

// The data of each event of a stream that has come whole.
export function events(body) {
  return body
    .replace(/\r\n?/g, '\n')
    .split('\n\n')
    .map((event) =>
      event
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).replace(/^ /, ''))
        .join('\n'),
    )
    .filter((data) => data !== '');
}

// What a stream says of itself: its text, its tokens, and whether it came to its end.
export function read(body) {
  const found = { text: '', tokens: null, chunks: 0, done: false, error: null };
  for (const data of events(body)) {
    if (data === '[DONE]') {
      found.done = true;
      continue;
    }
    let chunk;
    try {
      chunk = JSON.parse(data);
    } catch {
      found.error = 'an event is not JSON';
      continue;
    }
    if (chunk.error) {
      found.error = chunk.error.message || 'an error';
    }
    for (const choice of chunk.choices || []) {
      const delta = choice.delta || {};
      const said = delta.content || delta.reasoning_content || '';
      if (said) {
        found.chunks += 1;
        found.text += delta.content || '';
      }
    }
    if (chunk.usage) {
      found.tokens = chunk.usage.completion_tokens;
    }
  }
  return found;
}

// Milliseconds until the first token by the server's own word; null where it says none.
export function serverTiming(header) {
  const found = /(?:^|[ ,])ttft;dur=([0-9.]+)/.exec(header || '');
  return found ? Number(found[1]) : null;
}

export function body(user, turn) {
  const words = Array.from({ length: PROMPT_WORDS }, (_, i) => `word${(user * 7919 + turn * 104729 + i) % 997}`);
  const asked = {
    model: MODEL,
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: words.join(' ') }],
  };
  if (OTHER_SERVER) {
    asked.max_completion_tokens = OUTPUT_TOKENS;
  } else {
    asked.paceline = { output_tokens: OUTPUT_TOKENS };
  }
  if (TIER) {
    asked.service_tier = TIER;
  }
  return asked;
}

export default function chat() {
  const response = http.post(`${BASE_URL}/chat/completions`, JSON.stringify(body(__VU, __ITER)), {
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${API_KEY}` },
    timeout: '10m',
  });
  const answer = read(response.body || '');
  const ok = check(response, {
    'status is 200': (r) => r.status === 200,
    'the stream came to its end': () => answer.done && answer.error === null,
  });
  failed.add(!ok);
  if (!ok) {
    return;
  }
  ttfb.add(response.timings.waiting);
  e2e.add(response.timings.waiting + response.timings.receiving);
  const told = serverTiming(response.headers['Server-Timing']);
  if (told !== null) {
    serverTtft.add(told);
  }
  const tokens = answer.tokens === null ? answer.chunks : answer.tokens;
  outputTokens.add(tokens);
  if (tokens > 1) {
    tpotMean.add(response.timings.receiving / (tokens - 1));
  }
}
