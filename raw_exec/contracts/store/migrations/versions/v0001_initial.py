"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("email", sa.String(length=512), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
    )
    op.create_table(
        "workspaces",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("display_name", sa.String(length=512), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("cli_publishing", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspaces")),
        sa.UniqueConstraint("name", name=op.f("uq_workspaces_name")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("token_sha256", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=512), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("workspace_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(user_id IS NULL) <> (workspace_id IS NULL)", name=op.f("ck_api_keys_one_holder")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_api_keys_user_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_api_keys_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("token_sha256", name=op.f("uq_api_keys_token_sha256")),
    )
    op.create_index(op.f("ix_api_keys_user_id"), "api_keys", ["user_id"], unique=False)
    op.create_index(op.f("ix_api_keys_workspace_id"), "api_keys", ["workspace_id"], unique=False)
    op.create_table(
        "device_logins",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("device_sha256", sa.String(length=64), nullable=False),
        sa.Column("user_code", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=512), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("interval_seconds", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("polled_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_device_logins_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_logins")),
        sa.UniqueConstraint("device_sha256", name=op.f("uq_device_logins_device_sha256")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_logins_user_code")),
    )
    op.create_index(
        op.f("ix_device_logins_expires_at"), "device_logins", ["expires_at"], unique=False
    )
    op.create_table(
        "memberships",
        sa.Column("workspace_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=512), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memberships_user_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_memberships_workspace_id")
        ),
        sa.PrimaryKeyConstraint("workspace_id", "user_id", name=op.f("pk_memberships")),
    )
    op.create_index(op.f("ix_memberships_user_id"), "memberships", ["user_id"], unique=False)
    op.create_table(
        "prompts",
        sa.Column("identity", sa.String(length=512), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workspace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_prompts_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompts")),
        sa.UniqueConstraint(
            "workspace_id", "identity", name=op.f("uq_prompts_workspace_id_identity")
        ),
        sa.UniqueConstraint("workspace_id", "name", name=op.f("uq_prompts_workspace_id_name")),
    )
    op.create_index(
        op.f("ix_prompts_workspace_id_created_at_id"),
        "prompts",
        ["workspace_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "tools",
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workspace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_tools_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tools")),
        sa.UniqueConstraint("workspace_id", "name", name=op.f("uq_tools_workspace_id_name")),
    )
    op.create_index(
        op.f("ix_tools_workspace_id_created_at_id"),
        "tools",
        ["workspace_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "prompt_versions",
        sa.Column("prompt_id", sa.String(length=64), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("decision_spec", sa.JSON(), nullable=True),
        sa.Column("model_config", sa.JSON(), nullable=True),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("major", sa.Integer(), nullable=False),
        sa.Column("minor", sa.Integer(), nullable=False),
        sa.Column("patch", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("readme", sa.Text(), nullable=False),
        sa.Column("output_schema", sa.JSON(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["prompt_id"], ["prompts.id"], name=op.f("fk_prompt_versions_prompt_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompt_versions")),
        sa.UniqueConstraint(
            "prompt_id", "version", name=op.f("uq_prompt_versions_prompt_id_version")
        ),
    )
    op.create_index(
        "uq_prompt_versions_one_draft",
        "prompt_versions",
        ["prompt_id"],
        unique=True,
        sqlite_where=sa.text("status = 'DRAFT'"),
        postgresql_where=sa.text("status = 'DRAFT'"),
    )
    op.create_table(
        "tool_versions",
        sa.Column("tool_id", sa.String(length=64), nullable=False),
        sa.Column("model_description", sa.Text(), nullable=False),
        sa.Column("input_schema", sa.JSON(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("major", sa.Integer(), nullable=False),
        sa.Column("minor", sa.Integer(), nullable=False),
        sa.Column("patch", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("readme", sa.Text(), nullable=False),
        sa.Column("output_schema", sa.JSON(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tool_id"], ["tools.id"], name=op.f("fk_tool_versions_tool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_versions")),
        sa.UniqueConstraint("tool_id", "version", name=op.f("uq_tool_versions_tool_id_version")),
    )
    op.create_index(
        "uq_tool_versions_one_draft",
        "tool_versions",
        ["tool_id"],
        unique=True,
        sqlite_where=sa.text("status = 'DRAFT'"),
        postgresql_where=sa.text("status = 'DRAFT'"),
    )
    op.create_table(
        "pins",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("prompt_version_id", sa.String(length=64), nullable=False),
        sa.Column("tool_id", sa.String(length=64), nullable=False),
        sa.Column("tool_version_id", sa.String(length=64), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prompt_version_id"], ["prompt_versions.id"], name=op.f("fk_pins_prompt_version_id")
        ),
        sa.ForeignKeyConstraint(["tool_id"], ["tools.id"], name=op.f("fk_pins_tool_id")),
        sa.ForeignKeyConstraint(
            ["tool_version_id"], ["tool_versions.id"], name=op.f("fk_pins_tool_version_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pins")),
        sa.UniqueConstraint(
            "prompt_version_id", "alias", name=op.f("uq_pins_prompt_version_id_alias")
        ),
        sa.UniqueConstraint(
            "prompt_version_id", "tool_id", name=op.f("uq_pins_prompt_version_id_tool_id")
        ),
    )
    op.create_index(op.f("ix_pins_tool_id"), "pins", ["tool_id"], unique=False)
    op.create_index(op.f("ix_pins_tool_version_id"), "pins", ["tool_version_id"], unique=False)
    op.create_table(
        "prompt_files",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("prompt_version_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("is_entrypoint", sa.Boolean(), nullable=False),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("input_schema", sa.JSON(), nullable=True),
        sa.Column("option_input_schema", sa.JSON(), nullable=True),
        sa.Column("schema_warnings", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prompt_version_id"],
            ["prompt_versions.id"],
            name=op.f("fk_prompt_files_prompt_version_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompt_files")),
        sa.UniqueConstraint(
            "prompt_version_id", "name", name=op.f("uq_prompt_files_prompt_version_id_name")
        ),
    )


def downgrade() -> None:
    """Refuse: a registry is never taken back to a time before its publications."""
    raise RuntimeError("the first schema has no predecessor; restore a copy instead")
