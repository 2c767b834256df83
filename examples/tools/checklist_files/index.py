"""Check files one after the other and show how far it got: a panel tool to start your own from."""

from pathlib import Path

PANEL = "files"


def handler(args, context):
    """Replace the panel once, then patch one item at a time."""
    paths = list(dict.fromkeys(args["paths"]))
    items = [{"id": f"f{n}", "label": path, "status": "pending"} for n, path in enumerate(paths)]
    show(context, {"op": "replace", "document": document(items)})
    found = {"fine": [], "no_line_break": [], "unreadable": []}
    for item in items:
        if context.signal.aborted:
            break
        group, item["status"], note = check(Path(context.cwd) / item["label"])
        found[group].append(item["label"])
        change = {**item, "note": note} if note else item
        patch = {"op": "upsert_items", "block": "files", "items": [change]}
        show(context, {"op": "patch", "patches": [patch]})
    show(context, {"op": "patch", "patches": [{"op": "set", "field": "status", "value": "done"}]})
    return {"content": [{"type": "json", "value": found}]}


def document(items):
    """Progress and summary are derived from the checklist."""
    return {"status": "active", "blocks": [{"id": "files", "kind": "checklist", "items": items}]}


def show(context, body):
    """Without a session nobody looks: then the tool does its work all the same."""
    try:
        context.panels.update(PANEL, body)
    except Exception as error:
        # 200 updates of a panel are possible in one call; the work is worth more than its picture.
        if getattr(error, "code", None) not in ("panel_closed_context", "panel_rate_limited"):
            raise


def check(path):
    """Return the group, the item's status, and a note."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return "unreadable", "blocked", error.strerror
    if data and not data.endswith(b"\n"):
        return "no_line_break", "failed", "no line break at the end"
    return "fine", "done", None
