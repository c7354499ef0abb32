"""The shards of a test database are databases, too: they come and go with it."""

from django.db import connection
from django.test.runner import DiscoverRunner


def drop_shards():
    """Local shards are named after the router's database."""
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [connection.creation._get_test_db_name() + "_s"])
        for name, in cursor.fetchall():
            cursor.execute("DROP DATABASE %s WITH (FORCE)" % connection.ops.quote_name(name))


class ShardRunner(DiscoverRunner):
    def setup_databases(self, **kwargs):
        if not self.keepdb:
            drop_shards()
        return super().setup_databases(**kwargs)

    def teardown_databases(self, old_config, **kwargs):
        super().teardown_databases(old_config, **kwargs)
        if not self.keepdb:
            drop_shards()
