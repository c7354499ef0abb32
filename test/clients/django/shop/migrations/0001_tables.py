import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


def key(name, model, **options):
    return (name, models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop." + model, **options))


ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel("Country", [("code", models.CharField(max_length=2, primary_key=True, serialize=False)), ("name", models.TextField())]),
        migrations.CreateModel("Tenant", [
            ID, ("name", models.CharField(max_length=100)),
            ("country", models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="shop.country"))]),
        migrations.CreateModel("Customer", [
            ID, key("tenant", "tenant"), ("email", models.CharField(max_length=200)), ("settings", models.JSONField(default=dict)),
            ("labels", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
            ("key", models.UUIDField(null=True)), ("created", models.DateTimeField(auto_now_add=True))],
            options={"unique_together": {("tenant", "email")}}),
        migrations.AddIndex("customer", models.Index(fields=["key"], name="customer_key")),
        migrations.CreateModel("Tag", [ID, key("tenant", "tenant"), ("word", models.CharField(max_length=30))]),
        migrations.CreateModel("Purchase", [
            ID, key("tenant", "tenant"), key("customer", "customer", db_constraint=False),
            ("amount", models.IntegerField()), ("date", models.DateField(null=True))]),
        migrations.CreateModel("Tagging", [
            ID, key("tenant", "tenant"), key("purchase", "purchase", db_constraint=False), key("tag", "tag", db_constraint=False)]),
        migrations.AddField("purchase", "tags", models.ManyToManyField(through="shop.Tagging", to="shop.Tag")),
        migrations.AddConstraint("purchase", models.CheckConstraint(check=models.Q(amount__gte=0), name="purchase_amount")),
    ]
