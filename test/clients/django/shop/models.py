"""Each table has the column tenant_id. Foreign keys between rows of one tenant are pairs of columns, which
Django does not write: db_constraint is off, and a migration adds them. Project and Task are as Django makes them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


class Country(models.Model):
    code = models.CharField(max_length=2, primary_key=True)
    name = models.TextField()


class Tenant(models.Model):
    name = models.CharField(max_length=100)
    country = models.ForeignKey(Country, null=True, on_delete=models.PROTECT)


class Customer(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    email = models.CharField(max_length=200)
    settings = models.JSONField(default=dict)
    labels = ArrayField(models.TextField(), default=list)
    key = models.UUIDField(null=True)
    created = models.DateTimeField(auto_now_add=True)
    nickname = models.CharField(max_length=50, null=True)
    active = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "nickname"], name="customer_nickname")]
        indexes = [models.Index(fields=["created"], name="customer_created")]


class Tag(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    word = models.CharField(max_length=30)


class Purchase(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, db_constraint=False)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    day = models.DateField(null=True)
    tags = models.ManyToManyField(Tag, through="Tagging")

    class Meta:
        constraints = [models.CheckConstraint(check=Q(amount__gte=0), name="purchase_amount")]


class Tagging(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    purchase = models.ForeignKey(Purchase, on_delete=models.CASCADE, db_constraint=False)
    tag = models.ForeignKey(Tag, on_delete=models.CASCADE, db_constraint=False)


class Note(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    purchase = models.ForeignKey(Purchase, on_delete=models.CASCADE, db_constraint=False)
    body = models.TextField()


class Project(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    name = models.CharField(max_length=50)

    class Meta:
        unique_together = [("tenant", "name")]


class Task(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    title = models.TextField()
