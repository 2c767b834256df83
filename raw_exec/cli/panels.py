"""``raw panels``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from .lazy import LazyGroup
from .options import command, common_options, settings_of

if TYPE_CHECKING:
    from ..panels import PanelRevision

__all__ = ["list_panels", "panels", "show"]

_history = click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    metavar="FILE",
    help="History file that the session was kept in.",
)
_session = click.option("--session", metavar="ID", help="Session. Default: the newest of the file.")


@click.group(
    "panels",
    cls=LazyGroup,
    lazy={
        "list": ("panels:list_panels", "List the panels that a session kept."),
        "show": ("panels:show", "Print panels of a session as text."),
    },
)
@common_options
def panels() -> None:
    """Look at the panels that a session kept."""


@command("list")
@_history
@_session
@click.pass_context
def list_panels(ctx: click.Context, history: str, session: str | None) -> None:
    """List the panels that a session kept.

    With their last revision, whether they are open, and their summary. Nothing is changed
    except that questions and processes of hosts that died are marked as such.
    """
    settings = settings_of(ctx)
    name, found = _read(history, session)
    rows = [_row(revision) for revision in found]
    if settings.as_json:
        settings.output.json({"session": name, "panels": rows})
    elif rows:
        settings.output.table(
            ("PANEL", "REVISION", "STATE", "STATUS", "SUMMARY"),
            [
                (row["id"], str(row["revision"]), row["state"], row["status"], row["summary"] or "")
                for row in rows
            ],
        )
    else:
        settings.output.note(f"session {name} has no panels")


@command("show")
@click.argument("panel", required=False)
@_history
@_session
@click.option(
    "--width",
    type=click.IntRange(24, 400),
    metavar="CELLS",
    help="Width of the text. Default: that of the terminal, else 80.",
)
@click.pass_context
def show(
    ctx: click.Context, panel: str | None, history: str, session: str | None, width: int | None
) -> None:
    """Print panels of a session as text.

    PANEL is a full ID as 'raw panels list' prints it, or the part after the #. All panels by
    default. Whatever a tool wrote is escaped. With --json the documents are printed.
    """
    import shutil

    from ..panels import display_document, render_document
    from ..values import thaw

    settings = settings_of(ctx)
    name, found = _read(history, session)
    if panel is not None:
        known = ", ".join(revision.id for revision in found) or "none"
        found = [r for r in found if panel in (r.id, r.panel)]
        if not found:
            message = f"session {name} has no panel {panel!r:.200}"
            raise ConfigError("unknown_target", message, hint=f"it has: {known}")
    if settings.as_json:
        documents = [
            {**_row(revision), "document": thaw(display_document(revision.document))}
            for revision in found
        ]
        settings.output.json({"session": name, "panels": documents})
        return
    cells = width or shutil.get_terminal_size((80, 24)).columns
    for index, revision in enumerate(found):
        if index:
            settings.output.line()
        subject = f"{revision.id}, revision {revision.revision}, {revision.state}"
        title = revision.document.get("title") or revision.panel
        text = render_document(revision.document, title=title, subject=subject, width=cells)
        settings.output.data(text)
    if not found:
        settings.output.note(f"session {name} has no panels")


def _row(revision: PanelRevision) -> dict[str, Any]:
    from ..panels import derive

    derived = derive(revision.document)
    return {
        "id": revision.id,
        "revision": revision.revision,
        "state": revision.state,
        "status": derived.status,
        "summary": derived.summary,
        "updated_at": revision.at,
    }


def _read(path: str, session: str | None) -> tuple[str, list[PanelRevision]]:
    from ..history import open_history
    from ..panels import PanelError, PanelRevision
    from ..values import thaw
    from .running import run_async

    async def read() -> tuple[str, list[PanelRevision]]:
        async with open_history(path) as history:
            name = session
            if name is None:
                newest = await history.sessions(1)
                if not newest:
                    raise ConfigError("unknown_target", "it holds no session", where=path)
                name = newest[0].session_id
            elif await history.session(name) is None:
                known = ", ".join(s.session_id for s in await history.sessions(10)) or "none"
                message = f"there is no session {name!r:.200}"
                raise ConfigError("unknown_target", message, where=path, hint=f"newest: {known}")
            stored = await history.panels(name)
        found = []
        for panel in stored:
            try:
                found.append(PanelRevision.from_dict(thaw(panel.document)))
            except PanelError as exc:
                message = f"panel {panel.panel!r:.200} can't be read: {exc}"
                raise ConfigError("history_corrupt", message, where=path) from exc
        return name, found

    return run_async(read)
