"""Tables with a key of their own: CREATE TABLE distributes them."""

import django.db.models.deletion
from django.db import migrations, models

ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
TENANT = ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.tenant"))


class Migration(migrations.Migration):
    dependencies = [("shop", "0005_concurrently")]
    operations = [
        migrations.RunSQL("SET LOCAL shardlet.new_tables = 'tenants:tenant_id:local_unique'", migrations.RunSQL.noop),
        migrations.CreateModel("Project", [ID, TENANT, ("name", models.CharField(max_length=50))], options={"unique_together": {("tenant", "name")}}),
        migrations.CreateModel("Task", [
            ID, TENANT, ("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.project")), ("title", models.TextField())]),
    ]
