"""What a call would do, computed before it may: descriptors in a bounded engine.

``WasmEngine`` runs the synchronous, I/O-free functions of ESM plugins in process;
``check_effects`` judges what they say; ``normalise_effect_path`` is how paths in effects
are written. Importing this package does not import the WebAssembly runtime.
"""

from .declared import check_effects
from .descriptor import MAX_RESULT_BYTES, DescriptorModule
from .engine import DEFAULT_LOAD_MS, DEFAULT_MEMORY_BYTES, WasmEngine
from .failures import DescriptorFailed, EngineUnsupported
from .paths import is_effect_path, normalise_effect_path

__all__ = [
    "DEFAULT_LOAD_MS",
    "DEFAULT_MEMORY_BYTES",
    "MAX_RESULT_BYTES",
    "DescriptorFailed",
    "DescriptorModule",
    "EngineUnsupported",
    "WasmEngine",
    "check_effects",
    "is_effect_path",
    "normalise_effect_path",
]
