"""The registry's database: SQLite in one file, or PostgreSQL by URL."""

from .open import Store, open_store
from .rows import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "Store", "open_store"]
