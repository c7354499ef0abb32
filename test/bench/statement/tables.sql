-- The tables of a shop, as one plain database, a router and a shard have them.
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text, region text);
CREATE TABLE orders (customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2),
	PRIMARY KEY (customer_id, order_id));
CREATE INDEX ON orders (created);
CREATE TABLE items (customer_id bigint, order_id bigint, line int, product_id int, qty int, price numeric,
	PRIMARY KEY (customer_id, order_id, line));
CREATE TABLE products (product_id int PRIMARY KEY, name text, category text);
INSERT INTO products SELECT p, 'product ' || p, 'category ' || p % 20 FROM generate_series(1, 1000) p;
