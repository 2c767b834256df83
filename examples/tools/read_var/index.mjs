// Read one variable, if the agent selects it and its access is "read".

export async function handler(args, context) {
  try {
    // { name, value, observed_at, cached }
    return { content: [{ type: "json", value: await context.vars.read(args.name) }] };
  } catch (error) {
    if (typeof error?.code !== "string") throw error;
    const text = { type: "text", text: String(error.message) };
    return { isError: true, code: "vars_unavailable", content: [text] };
  }
}
