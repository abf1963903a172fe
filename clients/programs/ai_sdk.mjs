// Vercel's ai with @ai-sdk/openai: whole and streamed text, a tool loop, and a typed answer.
import assert from "node:assert";
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.BASE_URL + "/v1", apiKey: "any" });
const kind = process.argv[2];
const model = kind === "chat" ? openai.chat(process.env.MODEL) : openai.responses(process.env.MODEL);
const maxRetries = 0;

const whole = await generateText({ model, prompt: "hi", maxRetries });
assert(whole.text);
assert(whole.usage.outputTokens > 0);

let text = "";
const failures = [];
const streamed = streamText({
  model,
  prompt: "hi",
  maxRetries,
  onError: ({ error }) => failures.push(error),
});
for await (const delta of streamed.textStream) text += delta;
assert.deepEqual(failures, []);
assert(text);

const called = [];
const tools = {
  get_weather: tool({
    description: "The weather of a city",
    inputSchema: z.object({ city: z.string(), days: z.number().int() }),
    execute: async ({ city }) => {
      called.push(city);
      return `sunny in ${city}`;
    },
  }),
};
const loop = streamText({
  model,
  prompt: "The weather in Graz?",
  tools,
  stopWhen: isStepCount(8),
  maxRetries,
  onError: ({ error }) => failures.push(error),
});
for await (const _part of loop.fullStream);
assert.deepEqual(failures, []);
assert(called.length > 0, "no tool was called");
assert(await loop.text);

const typed = await generateText({
  model,
  prompt: "Report on Graz.",
  maxRetries,
  output: Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) }),
});
assert.equal(typeof typed.output.degrees, "number");
