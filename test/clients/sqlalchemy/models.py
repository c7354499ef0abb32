"""The schema as it is after both migrations."""

import enum

from sqlalchemy import (BigInteger, Boolean, CheckConstraint, Column, Computed, Date, DateTime, Enum, ForeignKey, ForeignKeyConstraint, Identity,
                        Index, Integer, Numeric, Sequence, String, Text, UniqueConstraint, func, text)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID
from sqlalchemy.orm import declarative_base, relationship

Base = declarative_base()


class Status(enum.Enum):
    new = 1
    paid = 2
    sent = 3


class Country(Base):
    __tablename__ = "countries"
    code = Column(String(2), primary_key=True)
    name = Column(Text, nullable=False)


class Tenant(Base):
    __tablename__ = "tenants"
    id = Column(BigInteger, Identity(), primary_key=True)
    name = Column(String(100), nullable=False)
    country_code = Column(ForeignKey("countries.code"))
    country = relationship(Country)
    users = relationship("User", back_populates="tenant", cascade="all, delete-orphan", passive_deletes=True, order_by="User.id")


class User(Base):
    __tablename__ = "users"
    tenant_id = Column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    id = Column(BigInteger, Sequence("users_id_seq"), primary_key=True, server_default=text("nextval('users_id_seq'::regclass)"))
    email = Column(String(200), nullable=False)
    settings = Column(JSONB(none_as_null=True), nullable=False, server_default=text("'{}'::jsonb"))
    tags = Column(ARRAY(Text))
    key = Column(UUID(as_uuid=True))
    created = Column(DateTime(timezone=True), server_default=func.now())
    nickname = Column(String(50))
    active = Column(Boolean, nullable=False, server_default=text("true"))
    tenant = relationship(Tenant, back_populates="users")
    orders = relationship("Order", back_populates="user", order_by="Order.id", overlaps="tenant")
    __table_args__ = (UniqueConstraint("tenant_id", "email", name="users_email_key"),
                      UniqueConstraint("tenant_id", "nickname", name="users_nickname_key"),
                      Index("users_created", "created"))


class Order(Base):
    __tablename__ = "orders"
    tenant_id = Column(BigInteger, primary_key=True)
    id = Column(BigInteger, Sequence("orders_id_seq"), primary_key=True, server_default=text("nextval('orders_id_seq'::regclass)"))
    user_id = Column(BigInteger, nullable=False)
    status = Column(Enum(Status, name="status"), nullable=False, server_default="new")
    total = Column(Numeric(12, 2), nullable=False)
    gross = Column(Numeric, Computed("total * 1.2", persisted=True))
    day = Column(Date)
    user = relationship(User, back_populates="orders")
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="CASCADE", name="orders_user_fkey"),
                      CheckConstraint("total >= 0", name="orders_total_check"),
                      Index("orders_user", "tenant_id", "user_id"))


class Note(Base):
    __tablename__ = "notes"
    tenant_id = Column(BigInteger, primary_key=True)
    id = Column(BigInteger, Sequence("notes_id_seq"), primary_key=True, server_default=text("nextval('notes_id_seq'::regclass)"))
    order_id = Column(BigInteger, nullable=False)
    body = Column(Text)
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "order_id"], ["orders.tenant_id", "orders.id"], name="notes_order_fkey", ondelete="CASCADE"),
                      {"comment": "what was written about orders"})
