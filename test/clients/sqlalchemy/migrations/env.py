from alembic import context

from models import Base

with context.config.attributes["engine"].connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True, compare_server_default=True,
                      transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
