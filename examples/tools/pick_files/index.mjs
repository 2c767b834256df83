// Ask a person to choose, and show the choice: a panel tool to start your own from.

export async function handler({ paths, why }, { panels, interactions }) {
  const options = paths.map((path, number) => ({ id: `p${number}`, label: path }));
  const fields = [
    { id: "picked", label: why, kind: "multi_select", options, min_selected: 0 },
    { id: "remark", label: "Anything to add?", kind: "text", required: false, max_bytes: 500 },
  ];
  let answers;
  try {
    const document = { title: "Pick files", blocks: [{ id: "form", kind: "form", fields }] };
    ({ answers } = await interactions.request({ panel: "pick", document, timeout_ms: 600_000 }));
  } catch (error) {
    // interaction_unavailable, _cancelled, _expired and so on: the model is told which.
    const text = `nothing was picked: ${error.message}`;
    return { isError: true, code: error.code, content: [{ type: "text", text }] };
  }
  const picked = answers.picked.map((id) => paths[Number(id.slice(1))]);
  const items = picked.map((path) => ({ path, status: "referenced" }));
  await panels.update("pick", {
    op: "replace",
    document: { title: "Picked", status: "done", blocks: [{ id: "files", kind: "files", items }] },
  });
  const value = answers.remark === undefined ? { picked } : { picked, remark: answers.remark };
  return { content: [{ type: "json", value }] };
}
