export async function handler({ region, query }) {
  return { content: [{ type: "text", text: `${region}: ${query ?? "nothing"}` }] };
}
