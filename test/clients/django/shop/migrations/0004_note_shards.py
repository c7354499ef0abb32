from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0003_second")]
    operations = [
        migrations.RunSQL("""
            ALTER TABLE shop_note DROP CONSTRAINT shop_note_pkey, ADD PRIMARY KEY (tenant_id, id);
            SELECT shardlet.distribute('shop_note', 'tenants', 'tenant_id');
            ALTER TABLE shop_note ADD CONSTRAINT note_purchase FOREIGN KEY (tenant_id, purchase_id) REFERENCES shop_purchase DEFERRABLE INITIALLY DEFERRED"""),
    ]
