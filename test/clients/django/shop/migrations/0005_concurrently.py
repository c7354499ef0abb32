from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0004_note_shards")]
    operations = [
        AddIndexConcurrently("customer", models.Index(fields=["email"], name="customer_email")),
        RemoveIndexConcurrently("customer", "customer_email"),
    ]
