"""What migrations do to tables that are distributed."""

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"


def upgrade():
    op.add_column("users", sa.Column("nickname", sa.String(50)))
    op.add_column("users", sa.Column("active", sa.Boolean, nullable=False, server_default=sa.text("true")))
    op.create_unique_constraint("users_nickname_key", "users", ["tenant_id", "nickname"])
    op.drop_index("users_key", "users")
    op.create_index("users_created", "users", ["created"])
    op.alter_column("orders", "total", type_=sa.Numeric(12, 2), existing_type=sa.Integer)
    op.add_column("orders", sa.Column("gross", sa.Numeric, sa.Computed("total * 1.2", persisted=True)))
    op.alter_column("orders", "date", new_column_name="day")
    op.execute(sa.schema.CreateSequence(sa.Sequence("notes_id_seq")))
    op.create_table(
        "notes",
        sa.Column("tenant_id", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.BigInteger, server_default=sa.text("nextval('notes_id_seq')"), primary_key=True),
        sa.Column("order_id", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text))
    op.execute("SELECT shardlet.distribute('notes', 'tenants', 'tenant_id')")
    op.create_foreign_key("notes_order_fkey", "notes", "orders", ["tenant_id", "order_id"], ["tenant_id", "id"], ondelete="CASCADE")
    op.create_table_comment("notes", "what was written about orders")
    with op.get_context().autocommit_block():
        op.create_index("users_email", "users", [sa.text("lower(email)")], postgresql_concurrently=True)


def downgrade():
    with op.get_context().autocommit_block():
        op.drop_index("users_email", "users", postgresql_concurrently=True)
    op.drop_table("notes")
    op.execute("DROP SEQUENCE notes_id_seq")
    op.alter_column("orders", "day", new_column_name="date")
    op.drop_column("orders", "gross")
    op.alter_column("orders", "total", type_=sa.Integer)
    op.drop_index("users_created", "users")
    op.create_index("users_key", "users", ["key"])
    op.drop_constraint("users_nickname_key", "users")
    op.drop_column("users", "active")
    op.drop_column("users", "nickname")
