"""Primary keys and foreign keys get the shard key, then the tables are distributed."""

import os

from django.db import migrations


def make_shards(apps, schema_editor):
    """A test database of "manage.py test" is new: it has neither the extension nor shards."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regnamespace('shardlet') IS NULL")
        if cursor.fetchone()[0]:
            with open(os.environ["CLIENT_SETUP"]) as script:
                cursor.execute(script.read())


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_tables")]
    operations = [
        migrations.RunPython(make_shards, migrations.RunPython.noop),
        migrations.RunSQL(["ALTER TABLE shop_%s DROP CONSTRAINT shop_%s_pkey, ADD PRIMARY KEY (tenant_id, id)" % (table, table)
                           for table in ("customer", "tag", "purchase", "tagging")]),
        migrations.RunSQL("""
            ALTER TABLE shop_purchase ADD CONSTRAINT purchase_customer FOREIGN KEY (tenant_id, customer_id) REFERENCES shop_customer DEFERRABLE INITIALLY DEFERRED;
            ALTER TABLE shop_tagging ADD CONSTRAINT tagging_purchase FOREIGN KEY (tenant_id, purchase_id) REFERENCES shop_purchase DEFERRABLE INITIALLY DEFERRED;
            ALTER TABLE shop_tagging ADD CONSTRAINT tagging_tag FOREIGN KEY (tenant_id, tag_id) REFERENCES shop_tag DEFERRABLE INITIALLY DEFERRED;
            SELECT shardlet.make_reference('shop_country');
            SELECT shardlet.distribute_tables('{shop_tenant, shop_customer, shop_tag, shop_purchase, shop_tagging}', 'tenants',
                '{id, tenant_id, tenant_id, tenant_id, tenant_id}')"""),
    ]
