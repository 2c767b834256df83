"""One compiled engine for all tests of this folder; it takes over a second to compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raw_exec.effects import DescriptorModule, WasmEngine

Load = Callable[..., DescriptorModule]


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a private folder that holds the compiled engine after the first use."""
    return tmp_path_factory.mktemp("engine")


@pytest.fixture(scope="session")
def engine(engine_cache: Path) -> Iterator[WasmEngine]:
    """Open an engine whose clock stands at 2024-01-02T03:04:05Z."""
    opened = WasmEngine.open(cache_dir=engine_cache, clock=lambda: 1_704_164_645_000_000_000)
    yield opened
    opened.close()


@pytest.fixture
def load(engine: WasmEngine) -> Iterator[Load]:
    """Return a function that loads an entry's text, with other files beside it."""
    opened: list[DescriptorModule] = []

    def load_text(text: str, *, deadline_ms: int = 1000, **options: object) -> DescriptorModule:
        files = {"index.mjs": text.encode()}
        for name, content in dict(options.pop("files", {})).items():  # type: ignore[call-overload]
            files[name] = content if isinstance(content, bytes) else content.encode()
        module = engine.load(files, "./index.mjs", deadline_ms=deadline_ms, **options)  # type: ignore[arg-type]
        opened.append(module)
        return module

    yield load_text
    for module in opened:
        module.close()
