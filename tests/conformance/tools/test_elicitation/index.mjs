const ask = (context, form, title) =>
  context.interactions.request({
    panel: "question",
    document: { title, blocks: [form] },
  });

export async function handler(args, context) {
  const fields = [
    { id: "username", label: "User's response", kind: "text" },
    { id: "email", label: "User's email address", kind: "text" },
  ];
  const { answers } = await ask(context, { id: "user", kind: "form", fields }, args.message);
  const text = `User response: ${JSON.stringify(answers)}`;
  return { content: [{ type: "text", text }] };
}
