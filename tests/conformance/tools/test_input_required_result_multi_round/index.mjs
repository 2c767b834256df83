const ask = (context, form, title) =>
  context.interactions.request({
    panel: "question",
    document: { title, blocks: [form] },
  });

export async function handler(args, context) {
  const name = [{ id: "name", label: "Name", kind: "text" }];
  const first = { id: "step1", kind: "form", fields: name };
  const one = await ask(context, first, "Step 1: What is your name?");
  const color = [{ id: "color", label: "Color", kind: "text" }];
  const second = { id: "step2", kind: "form", fields: color };
  const two = await ask(context, second, "Step 2: What is your favorite color?");
  const text = `${one.answers.name} likes ${two.answers.color}`;
  return { content: [{ type: "text", text }] };
}
