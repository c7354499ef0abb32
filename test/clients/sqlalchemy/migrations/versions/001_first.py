"""The tables, and how they are distributed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "001"
down_revision = None


def upgrade():
    op.create_table("countries", sa.Column("code", sa.String(2), primary_key=True), sa.Column("name", sa.Text, nullable=False))
    op.create_table(
        "tenants",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("country_code", sa.String(2), sa.ForeignKey("countries.code")))
    op.execute(sa.schema.CreateSequence(sa.Sequence("users_id_seq")))
    op.execute(sa.schema.CreateSequence(sa.Sequence("orders_id_seq")))
    op.create_table(
        "users",
        sa.Column("tenant_id", sa.BigInteger, sa.ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.BigInteger, server_default=sa.text("nextval('users_id_seq')"), primary_key=True),
        sa.Column("email", sa.String(200), nullable=False),
        sa.Column("settings", postgresql.JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
        sa.Column("tags", postgresql.ARRAY(sa.Text)),
        sa.Column("key", postgresql.UUID),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.UniqueConstraint("tenant_id", "email", name="users_email_key"))
    op.create_index("users_key", "users", ["key"])
    op.create_table(
        "orders",
        sa.Column("tenant_id", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.BigInteger, server_default=sa.text("nextval('orders_id_seq')"), primary_key=True),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Enum("new", "paid", "sent", name="status"), nullable=False, server_default="new"),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("date", sa.Date),
        sa.ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="CASCADE", name="orders_user_fkey"),
        sa.CheckConstraint("total >= 0", name="orders_total_check"))
    op.create_index("orders_user", "orders", ["tenant_id", "user_id"])
    op.execute("SELECT shardlet.make_reference('countries')")
    op.execute("SELECT shardlet.distribute_tables('{tenants, users, orders}', 'tenants', '{id, tenant_id, tenant_id}')")


def downgrade():
    for table in ("orders", "users", "tenants", "countries"):
        op.drop_table(table)
    op.execute("DROP SEQUENCE orders_id_seq")
    op.execute("DROP SEQUENCE users_id_seq")
    op.execute("DROP TYPE status")
