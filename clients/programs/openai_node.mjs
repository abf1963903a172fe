// openai for Node: chat and responses, whole and streamed, with a tool loop each.
import assert from "node:assert";
import OpenAI from "openai";

const model = process.env.MODEL;
const client = new OpenAI({ baseURL: process.env.BASE_URL + "/v1", apiKey: "any", maxRetries: 0 });
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

if (process.argv[2] === "chat") {
  const messages = [{ role: "user", content: "The weather in Graz?" }];
  const whole = await client.chat.completions.create({ model, messages });
  assert(whole.choices[0].message.content);
  let text = "";
  let usage = null;
  const stream = await client.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert(text);
  assert(usage.completion_tokens > 0);
  const called = [];
  const runner = client.chat.completions.runTools({
    model,
    messages,
    stream: true,
    tools: [
      {
        type: "function",
        function: {
          name: "get_weather",
          parameters,
          parse: JSON.parse,
          function: ({ city }) => {
            called.push(city);
            return `sunny in ${city}`;
          },
        },
      },
    ],
  });
  assert(await runner.finalContent());
  assert(called.length > 0, "no tool was called");
} else {
  const whole = await client.responses.create({ model, input: "hi" });
  assert(whole.output_text);
  const stream = client.responses.stream({ model, input: "hi" });
  const kinds = [];
  for await (const event of stream) kinds.push(event.type);
  assert.equal(kinds.at(-1), "response.completed");
  const tools = [{ type: "function", name: "get_weather", strict: true, parameters }];
  let response = await client.responses.create({ model, input: "The weather in Graz?", tools });
  let called = 0;
  for (let turn = 0; turn < 8; turn++) {
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) break;
    called += calls.length;
    for (const call of calls) assert(JSON.parse(call.arguments).city !== undefined);
    response = await client.responses.create({
      model,
      tools,
      previous_response_id: response.id,
      input: calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "sunny" })),
    });
  }
  assert(called > 0, "no tool was called");
  assert(response.output_text);
}
