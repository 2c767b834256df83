"""Alembic's folder: how one version of the schema becomes the next."""
