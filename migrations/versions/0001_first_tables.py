"""First tables: users, customers, profiles with versions, recommendations."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    users = op.create_table(
        "users",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.bulk_insert(users, [{"id": "local", "name": "Local user", "created_at": datetime.now(UTC)}])
    op.create_table(
        "customers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner_id", sa.String(36), sa.ForeignKey("users.id", name="fk_customers_owner_id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_customers"),
        sa.UniqueConstraint("owner_id", "name", name="uq_customers_owner_id_name"),
    )
    op.create_table(
        "profiles",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner_id", sa.String(36), sa.ForeignKey("users.id", name="fk_profiles_owner_id"), nullable=False),
        sa.Column("customer_id", sa.String(36), sa.ForeignKey("customers.id", name="fk_profiles_customer_id"), nullable=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
    )
    op.create_index("ix_profiles_customer_id", "profiles", ["customer_id"])
    op.create_index("ix_profiles_owner_id_archived_updated_at", "profiles", ["owner_id", "archived", "updated_at"])
    op.create_table(
        "profile_versions",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("profile_id", sa.String(36), sa.ForeignKey("profiles.id", name="fk_profile_versions_profile_id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("created_by", sa.String(36), sa.ForeignKey("users.id", name="fk_profile_versions_created_by"), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_profile_versions"),
        sa.UniqueConstraint("profile_id", "number", name="uq_profile_versions_profile_id_number"),
    )
    op.create_table(
        "recommendations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column(
            "profile_version_id",
            sa.String(36),
            sa.ForeignKey("profile_versions.id", name="fk_recommendations_profile_version_id"),
            nullable=False,
        ),
        sa.Column("architecture", sa.String(40), nullable=True),
        sa.Column("summary", sa.String, nullable=False),
        sa.Column("catalog_version", sa.String(100), nullable=False),
        sa.Column("engine_version", sa.String(40), nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("created_by", sa.String(36), sa.ForeignKey("users.id", name="fk_recommendations_created_by"), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recommendations"),
    )
    op.create_index("ix_recommendations_profile_version_id", "recommendations", ["profile_version_id"])


def downgrade() -> None:
    for table in ("recommendations", "profile_versions", "profiles", "customers", "users"):
        op.drop_table(table)
