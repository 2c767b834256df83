const ask = (context, form, title) =>
  context.interactions.request({
    panel: "question",
    document: { title, blocks: [form] },
  });

export async function handler(args, context) {
  const fields = [{ id: "name", label: "Name", kind: "text" }];
  const form = { id: "user_name", kind: "form", fields };
  const { answers } = await ask(context, form, "What is your name?");
  return { content: [{ type: "text", text: `Hello, ${answers.name}!` }] };
}
