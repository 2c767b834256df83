const ask = (context, form, title) =>
  context.interactions.request({
    panel: "question",
    document: { title, blocks: [form] },
  });

export async function handler(args, context) {
  const options = [
    { id: "yes", label: "Yes" },
    { id: "no", label: "No" },
  ];
  const fields = [{ id: "ok", label: "OK?", kind: "single_select", options, free_text: true }];
  const { answers } = await ask(context, { id: "confirm", kind: "form", fields }, "Please confirm");
  return { content: [{ type: "text", text: `state-ok: ${answers.ok}` }] };
}
