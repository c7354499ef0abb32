from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from shop.models import Customer, Purchase, Tenant


class RolledBack(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.tenant = Tenant.objects.create(name="one")
        Tenant.objects.bulk_create([Tenant(name="t%d" % n) for n in range(10)])

    def test_create(self):
        Customer.objects.create(tenant=self.tenant, email="a", nickname="n")
        with self.assertRaises(IntegrityError), transaction.atomic():
            Customer.objects.create(tenant=self.tenant, email="b", nickname="n")
        self.assertEqual(Customer.objects.count(), 1)

    def test_empty(self):
        self.assertEqual(Customer.objects.count(), 0)
        self.assertEqual(Tenant.objects.count(), 11)

    def test_foreign_key_at_the_end(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            Purchase.objects.create(tenant=self.tenant, customer_id=12345, amount=1)
            connection.check_constraints()


class Committed(TransactionTestCase):
    reset_sequences = True

    def test_ids(self):
        self.assertEqual([Tenant.objects.create(name="x").pk for n in range(5)], [1, 2, 3, 4, 5])

    def test_ids_again(self):
        self.assertEqual([Tenant.objects.create(name="x").pk for n in range(5)], [1, 2, 3, 4, 5])
        Customer.objects.bulk_create([Customer(tenant_id=n, email="e") for n in range(1, 6)])
        Tenant.objects.filter(pk__lt=3).delete()
        self.assertEqual(Customer.objects.count(), 3)
