-- Foreign keys follow their tables to the shards, whichever comes first.
CREATE SCHEMA fk;
SET search_path = fk;
SELECT shardlet.create_map('fk'), shardlet.create_map('fk_other');
CREATE TABLE products (id int PRIMARY KEY, name text);
CREATE TABLE customers (id bigint PRIMARY KEY, boss bigint REFERENCES customers);
CREATE TABLE orders (
	customer_id bigint REFERENCES customers ON DELETE CASCADE,
	id int,
	product int REFERENCES products,
	PRIMARY KEY (customer_id, id));
CREATE TABLE items (
	customer_id bigint,
	order_id int,
	n int,
	PRIMARY KEY (customer_id, order_id, n),
	CONSTRAINT items_order FOREIGN KEY (customer_id, order_id) REFERENCES orders (customer_id, id) ON DELETE CASCADE);
INSERT INTO products VALUES (1, 'one'), (2, 'two');
INSERT INTO customers SELECT g FROM generate_series(1, 20) g;
INSERT INTO orders SELECT g, g, 1 FROM generate_series(1, 20) g;
INSERT INTO items SELECT g, g, 1 FROM generate_series(1, 20) g;
CREATE FUNCTION on_shards() RETURNS TABLE (tbl text, name text, shards bigint) LANGUAGE sql AS $$
	SELECT tbl, name, count(*) FROM shardlet.query('fk', $q$SELECT conrelid::regclass::text, conname::text FROM pg_constraint
		WHERE contype = 'f' AND connamespace = 'fk'::regnamespace$q$) AS q(tbl text, name text) GROUP BY 1, 2 ORDER BY 1, 2 $$;

-- A foreign key to itself needs the key on both sides.
SELECT shardlet.distribute('customers', 'fk', 'id');
ALTER TABLE customers DROP COLUMN boss;

-- The one in the middle first: both neighbours are still local.
SELECT shardlet.distribute('orders', 'fk', 'customer_id');
SELECT tbl, pending_foreign_keys FROM shardlet.tables WHERE tbl::text = 'orders';
SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace;
SELECT * FROM on_shards();
SELECT shardlet.distribute('items', 'fk', 'customer_id');
SELECT * FROM on_shards();
SELECT shardlet.distribute('customers', 'fk', 'id');
SELECT * FROM on_shards();
SELECT shardlet.make_reference('products');
SELECT * FROM on_shards();
SELECT tbl, pending_foreign_keys FROM shardlet.tables WHERE tbl::text IN ('orders', 'items', 'customers') ORDER BY 1;
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (1, 99, 99);
INSERT INTO items VALUES (1, 99, 1);
\set VERBOSITY default
DELETE FROM customers WHERE id = 1;
SELECT count(*) FROM items WHERE customer_id = 1;

-- Back again: they are set aside as long as one side is on the shards.
SELECT shardlet.undistribute('orders');
\d orders
SELECT * FROM on_shards();
SELECT tbl, pending_foreign_keys FROM shardlet.tables WHERE tbl::text IN ('orders', 'items', 'customers') ORDER BY 1;
SELECT shardlet.undistribute('items');
SELECT shardlet.undistribute('customers');
\d items
\d orders
SELECT count(*) FROM shardlet.catalog_foreign_key;

-- What cannot hold is refused, at once or when the other side comes.
SELECT shardlet.distribute('customers', 'fk_other', 'id');
SELECT shardlet.distribute('orders', 'fk', 'customer_id');
SELECT shardlet.distribute('orders', 'fk_other', 'customer_id');
SELECT shardlet.place('items', 's1');
DELETE FROM shardlet.catalog_foreign_key WHERE tbl = 'fk.items'::regclass AND constraint_name = 'items_order';
SELECT shardlet.place('items', 's1');
SELECT count(*) FROM items;
SELECT shardlet.undistribute('orders'), shardlet.undistribute('customers');
CREATE TABLE parcels (customer_id bigint NOT NULL, about bigint REFERENCES customers);
SELECT shardlet.distribute('parcels', 'fk', 'customer_id');
SELECT shardlet.distribute('customers', 'fk', 'id');
CREATE TABLE kinds (id int PRIMARY KEY, favourite bigint REFERENCES customers);
SELECT shardlet.make_reference('kinds');
DROP TABLE parcels;
SELECT shardlet.distribute('customers', 'fk', 'id');

-- Placed tables on one shard.
CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);
SELECT shardlet.place('b', 's2');
SELECT shardlet.place('a', 's1');
SELECT shardlet.place('a', 's2');
SELECT pending_foreign_keys FROM shardlet.tables WHERE tbl = 'b'::regclass;

-- The copies of a reference table go only when no foreign key leans on them.
CREATE TABLE uses (k bigint NOT NULL, product int REFERENCES products);
SELECT shardlet.distribute('uses', 'fk', 'k');
SELECT * FROM on_shards();
SELECT shardlet.undistribute('products');
SELECT tbl, pending_foreign_keys FROM shardlet.tables WHERE tbl = 'uses'::regclass;
SELECT shardlet.undistribute('uses');
\d uses

-- One that is set aside finds its tables under new names.  It cannot follow columns,
-- and goes with the table that it refers to.
CREATE TABLE "new (kinds)" (id int PRIMARY KEY);
CREATE TABLE uses_kind (k bigint NOT NULL, kind int REFERENCES "new (kinds)" ON DELETE CASCADE);
SELECT shardlet.distribute('uses_kind', 'fk', 'k');
ALTER TABLE "new (kinds)" RENAME TO "newer ""(kinds)";
ALTER TABLE uses_kind RENAME TO uses_kinds;
ALTER TABLE uses_kinds RENAME kind TO kinds;
SELECT shardlet.make_reference('"newer ""(kinds)"');
ALTER TABLE uses_kinds RENAME kinds TO kind;
BEGIN;
DROP TABLE "newer ""(kinds)";
SELECT pending_foreign_keys FROM shardlet.tables WHERE tbl = 'uses_kinds'::regclass;
ROLLBACK;
SELECT shardlet.make_reference('"newer ""(kinds)"');
SELECT pending_foreign_keys FROM shardlet.tables WHERE tbl = 'uses_kinds'::regclass;
SELECT DISTINCT d FROM shardlet.query('fk', $$SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'fk.uses_kinds'::regclass AND contype = 'f'$$) AS q(d text);

-- A row that goes to another shard is deleted where it was, and must not take along what refers to it.
SELECT shardlet.create_map('fk_list', 'list');
SELECT count(shardlet.assign_key('fk_list', CASE WHEN k < 3 THEN 's1' ELSE 's2' END::name, k::bigint)) FROM generate_series(1, 4) k;
CREATE TABLE "a ""parent" (k bigint, id int, v text, PRIMARY KEY (k, id));
CREATE TABLE child (k bigint NOT NULL, parent int, n int);
CREATE TABLE loose (k bigint NOT NULL, "the parent" bigint, n int);
SELECT shardlet.distribute(t, 'fk_list', 'k') FROM unnest('{"\"a \"\"parent\"",child,loose}'::regclass[]) t;
ALTER TABLE child ADD CONSTRAINT "child's" FOREIGN KEY (k, parent) REFERENCES "a ""parent" ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE loose ADD CONSTRAINT loose_parent FOREIGN KEY (k, "the parent") REFERENCES "a ""parent" (k, id) ON DELETE SET NULL ("the parent");
INSERT INTO "a ""parent" SELECT g % 2 + 1, g FROM generate_series(1, 4) g;
INSERT INTO child VALUES (2, 1, 1);
INSERT INTO loose VALUES (1, 2, 1);
UPDATE "a ""parent" SET k = 3, v = 'moved' WHERE id = 1;
\set VERBOSITY terse
UPDATE "a ""parent" SET k = 3, v = 'moved' WHERE id = 2;
UPDATE "a ""parent" SET k = k + 2;
\set VERBOSITY default
UPDATE "a ""parent" SET k = 3, v = 'moved' WHERE id > 2 RETURNING *;
-- On one shard everything follows.
UPDATE "a ""parent" SET k = 1, v = 'here' WHERE id = 1 RETURNING *;
SELECT * FROM child;
DELETE FROM child;
UPDATE "a ""parent" SET k = 4, v = 'alone' WHERE id = 1 RETURNING *;
SELECT * FROM loose;
DROP TABLE child, loose, "a ""parent";

SET client_min_messages = warning;
DROP SCHEMA fk CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA fk CASCADE');
SELECT shardlet.drop_map('fk'), shardlet.drop_map('fk_other'), shardlet.drop_map('fk_list');
