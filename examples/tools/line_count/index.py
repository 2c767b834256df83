"""Count the lines, words and bytes of a text file: a small tool to start your own from."""

from pathlib import Path


def validate_args(args):
    """Say what the schema can't; the text goes to the model, so it shows a call that works."""
    if args["path"].endswith("/"):
        return 'path must name a file, for example {"path":"README.md"}'
    return None


def handler(args, context):
    """Runs in the sandbox, after the call was approved."""
    if context.signal.aborted:
        return _error("aborted", "aborted before anything was read")
    lines = words = size = 0
    try:
        with (Path(context.cwd) / args["path"]).open("rb") as file:
            for line in file:
                lines += 1
                words += len(line.split())
                size += len(line)
    except OSError as exc:
        return _error("unreadable", f"{args['path']}: {exc.strerror}")
    counts = {"path": args["path"], "lines": lines, "words": words, "bytes": size}
    return {"content": [{"type": "json", "value": counts}]}


def _error(code, message):
    return {"isError": True, "code": code, "content": [{"type": "text", "text": message}]}
