"""Models, queries and what inspectdb sees, after the migrations."""

import datetime
import uuid
from decimal import Decimal

from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import Count, Exists, F, OuterRef, Prefetch, Q, Sum, Window
from django.db.models.functions import Lower, RowNumber
from shop.models import Country, Customer, Note, Project, Purchase, Tag, Tagging, Task, Tenant


def section(name):
    print("==", name)


def show(rows):
    for row in rows:
        print("  ", row)


section("introspection")
with connection.cursor() as cursor:
    for table in sorted(connection.introspection.table_names(cursor)):
        print("  ", table, connection.introspection.get_primary_key_column(cursor, table))
        show(sorted(connection.introspection.get_constraints(cursor, table).items()))
        show(connection.introspection.get_table_description(cursor, table))
        show(connection.introspection.get_sequences(cursor, table))

section("create")
Country.objects.bulk_create([Country(code=c, name=c.upper()) for c in ("de", "fr", "nz")])
tenants = Tenant.objects.bulk_create([Tenant(name="tenant %d" % n, country_id=("de", "fr", "nz")[n % 3]) for n in range(15)])
print("  ", [t.pk for t in tenants])
customers = Customer.objects.bulk_create([Customer(tenant=t, email="c%d" % n, settings={"n": n, "deep": {"x": [n]}}, labels=["l%d" % n, "all"],
                                                   key=uuid.UUID(int=n), nickname="n%d" % n) for t in tenants for n in range(4)], batch_size=25)
print("  ", [c.pk for c in customers])
for customer in customers[:20]:
    purchase = customer.purchase_set.create(tenant_id=customer.tenant_id, amount=Decimal(customer.pk) / 4, day=datetime.date(2026, 1, 1))
    tag, made = Tag.objects.get_or_create(tenant_id=customer.tenant_id, word="w%d" % (customer.pk % 2))
    purchase.tags.add(tag, through_defaults={"tenant_id": customer.tenant_id})
    print("  ", purchase.pk, tag.pk, made)
print("  ", Customer.objects.update_or_create(tenant=tenants[0], nickname="n0", defaults={"email": "changed"})[1])
print("  ", User.objects.create_user("someone", password="x").pk)

section("queries")
show(Customer.objects.filter(tenant=tenants[2]).order_by("pk").values_list("pk", "email", "settings", "labels", "key"))
show(Customer.objects.select_related("tenant__country").filter(pk__lt=6).order_by("pk").values_list("pk", "tenant__country__name"))
show((t.pk, [(c.pk, [(p.pk, [g.word for g in p.tags.all()]) for p in c.purchase_set.all()]) for c in t.customer_set.all()]) for t in
     Tenant.objects.filter(pk__in=[1, 3]).order_by("pk").prefetch_related(Prefetch("customer_set", Customer.objects.order_by("pk")), "customer_set__purchase_set__tags"))
show(Tenant.objects.annotate(n=Count("customer"), total=Sum("purchase__amount")).filter(n__gt=0).order_by("-total", "pk").values_list("pk", "n", "total")[:6])
show(Purchase.objects.values("tenant__country").annotate(Sum("amount"), Count("pk")).order_by("tenant__country"))
show(Customer.objects.annotate(rank=Window(RowNumber(), partition_by=F("tenant_id"), order_by=F("pk").desc())).order_by("pk").values_list("pk", "rank")[:5])
print("  ", Customer.objects.filter(Exists(Purchase.objects.filter(customer=OuterRef("pk"), tenant=OuterRef("tenant")))).count(),
      Customer.objects.filter(settings__deep__x__contains=[3]).count(), Customer.objects.filter(labels__contains=["all"]).count(),
      Customer.objects.filter(Q(email__icontains="C1") | Q(nickname__startswith="n3")).count(), Customer.objects.filter(settings__n__gte=2).count(),
      Customer.objects.annotate(low=Lower("email")).filter(low="c2").count(), Customer.objects.exclude(purchase__amount__gt=3).count())
show(Customer.objects.filter(pk__in=Purchase.objects.filter(amount__lt=2).values("customer")).order_by("pk").values_list("pk"))
show(Customer.objects.order_by("tenant", "-pk").distinct("tenant").values_list("tenant", "pk")[:4])
show(Customer.objects.filter(tenant_id__lte=2).values_list("email").union(Customer.objects.filter(tenant_id=3).values_list("nickname")).order_by("email"))
print("  ", len(list(Customer.objects.order_by("pk").iterator(chunk_size=7))), sorted(Customer.objects.in_bulk([1, 9])), Customer.objects.order_by("pk").last().pk)
print("  ", Purchase.objects.dates("day", "month"), Purchase.objects.aggregate(Sum("amount"), Count("customer", distinct=True)))
print("  ", Customer.objects.raw("SELECT * FROM shop_customer WHERE tenant_id = %s ORDER BY id", [4])[1].email)

section("changes")
customer = Customer.objects.get(tenant=1, nickname="n1")
customer.email = "saved"
customer.save()
customer.save(update_fields=["email"])
print("  ", Customer.objects.filter(tenant=1).update(active=False), Customer.objects.filter(settings__n=3).update(email=F("nickname")))
print("  ", Purchase.objects.filter(tenant=2).update(amount=F("amount") + 1), Customer.objects.bulk_update([Customer(pk=c.pk, email="b%d" % c.pk) for c in customers[:30]], ["email"]))
print("  ", Customer.objects.bulk_create([Customer(tenant=tenants[0], email="x", nickname="n0"), Customer(tenant=tenants[0], email="y", nickname="new")], ignore_conflicts=True)[1].email)
Note.objects.create(tenant_id=1, purchase=Purchase.objects.filter(tenant=1).order_by("pk").first(), body="hello")
print("  ", Tenant.objects.get(pk=1).delete())
print("  ", Purchase.objects.filter(tenant=3).delete())
print("  ", Customer.objects.count(), Note.objects.count(), Tagging.objects.count())

section("transactions")
with transaction.atomic():
    Tenant.objects.create(pk=100, name="outer")
    try:
        with transaction.atomic():
            Tenant.objects.create(pk=101, name="inner")
            Customer.objects.create(tenant_id=2, email="d", nickname="n0")
    except IntegrityError as error:
        print("  ", error.__cause__.pgcode, error.__cause__.diag.constraint_name, str(error).splitlines()[:2])
    print("  ", Tenant.objects.filter(pk__gte=100).values_list("pk"))
    print("  ", Customer.objects.select_for_update().filter(tenant=2).order_by("pk").values_list("pk"))
    print("  ", Customer.objects.select_for_update(skip_locked=True, of=("self",)).select_related("tenant").filter(tenant=3).order_by("pk").first().pk)
try:
    with transaction.atomic():
        Purchase.objects.create(tenant_id=2, customer_id=99999, amount=1)
        print("   the foreign key is checked at the end")
except IntegrityError as error:
    print("  ", error.__cause__.pgcode, error.__cause__.diag.constraint_name)
for bad in (dict(tenant_id=4, customer_id=14, amount=-1), dict(tenant_id=4, customer_id=None, amount=1), dict(tenant_id=4, customer_id=14, amount=10 ** 11)):
    try:
        with transaction.atomic():
            Purchase.objects.create(**bad)
    except DatabaseError as error:
        print("  ", error.__cause__.pgcode, error.__cause__.diag.constraint_name, error.__cause__.diag.column_name)
print("  ", Tenant.objects.filter(pk__gte=100).count())

section("stock models, distributed by CREATE TABLE")
for tenant in Tenant.objects.filter(pk__range=(4, 8)).order_by("pk"):
    project = tenant.project_set.create(name="p")
    Task.objects.bulk_create([Task(tenant=tenant, project=project, title="t%d" % n) for n in range(3)])
show(Project.objects.order_by("pk").annotate(n=Count("task")).values_list("pk", "tenant", "n"))
show(Task.objects.select_related("project__tenant").order_by("pk").values_list("pk", "project__tenant__name")[:4])
print("  ", Task.objects.get(pk=5).project.name, Project.objects.get(pk=2).task_set.count(), Project.objects.filter(pk=3).delete(), Task.objects.count())
try:
    with transaction.atomic():
        Task.objects.create(tenant_id=4, project_id=4711, title="x")
        print("   the foreign key is checked at the end")
except IntegrityError as error:
    print("  ", error.__cause__.pgcode)
