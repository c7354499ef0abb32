"""What migrations do to tables that are distributed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_shards")]
    operations = [
        migrations.AddField("customer", "nickname", models.CharField(max_length=50, null=True)),
        migrations.AddField("customer", "active", models.BooleanField(default=True)),
        migrations.AlterUniqueTogether("customer", set()),
        migrations.AddConstraint("customer", models.UniqueConstraint(fields=["tenant", "nickname"], name="customer_nickname")),
        migrations.RemoveIndex("customer", "customer_key"),
        migrations.AddIndex("customer", models.Index(fields=["created"], name="customer_created")),
        migrations.RenameField("purchase", "date", "day"),
        migrations.AlterField("purchase", "amount", models.DecimalField(decimal_places=2, max_digits=12)),
        migrations.CreateModel("Note", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.tenant")),
            ("purchase", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.purchase", db_constraint=False)),
            ("body", models.TextField())]),
    ]
