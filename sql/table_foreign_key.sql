-- Foreign keys go to the shards with their tables, and are never dropped silently.
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

-- What cannot hold is said at the first call, whichever table it is for: a reference to
-- itself needs the key on both sides, and what is missing is named with the call.
SELECT shardlet.distribute('customers', 'fk', 'id');
ALTER TABLE customers DROP COLUMN boss;
SELECT shardlet.distribute('customers', 'fk', 'id');
SELECT shardlet.distribute('items', 'fk', 'customer_id');
SELECT shardlet.distribute_tables('{items, customers}', 'fk', '{customer_id, id}');
SELECT shardlet.distribute_tables('{items, customers, orders}', 'fk', '{customer_id, id, customer_id}');
SELECT tbl FROM shardlet.tables WHERE tbl::text IN ('orders', 'items', 'customers');
SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace ORDER BY 1, 2;

-- All together, in any order.
SELECT shardlet.make_reference('products');
SELECT shardlet.distribute_tables('{items, customers, orders}', 'fk', '{customer_id, id, customer_id}');
SELECT tbl, map, key FROM shardlet.tables WHERE tbl::text IN ('orders', 'items', 'customers') ORDER BY 1;
SELECT * FROM on_shards();
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (1, 99, 99);
INSERT INTO items VALUES (1, 99, 1);
\set VERBOSITY default
DELETE FROM customers WHERE id = 1;
SELECT count(*) FROM items WHERE customer_id = 1;

-- Back again: one whose other side stays on the shards is dropped, and that is said.
SELECT shardlet.undistribute('orders');
\d orders
SELECT * FROM on_shards();
SELECT shardlet.undistribute('items'), shardlet.undistribute('customers');
ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES customers ON DELETE CASCADE;
ALTER TABLE items ADD CONSTRAINT items_order FOREIGN KEY (customer_id, order_id) REFERENCES orders (customer_id, id) ON DELETE CASCADE;

-- Without foreign keys, if that is wanted: those to and from other tables, and those that cannot hold.
BEGIN;
SELECT shardlet.distribute('orders', 'fk', 'customer_id', drop_foreign_keys => true);
SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace ORDER BY 1, 2;
SELECT * FROM on_shards();
ROLLBACK;
CREATE TABLE parcels (customer_id bigint NOT NULL, about bigint REFERENCES customers, up bigint, id bigint, PRIMARY KEY (customer_id, id),
	FOREIGN KEY (up, id) REFERENCES parcels);
SELECT shardlet.distribute('parcels', 'fk', 'customer_id');
ALTER TABLE parcels DROP CONSTRAINT parcels_up_id_fkey;
SELECT shardlet.distribute('parcels', 'fk', 'customer_id');
SELECT shardlet.distribute('customers', 'fk', 'id');
SELECT shardlet.distribute_tables('{parcels, customers, orders, items}', 'fk', '{customer_id, id, customer_id, customer_id}', true);
SELECT * FROM on_shards();
DROP TABLE parcels;
SELECT shardlet.undistribute('items'), shardlet.undistribute('orders'), shardlet.undistribute('customers');
CREATE TABLE kinds (id int PRIMARY KEY, favourite bigint REFERENCES customers);
SELECT shardlet.make_reference('kinds');
SELECT shardlet.distribute('customers', 'fk', 'id');
SELECT shardlet.undistribute('kinds');
DROP TABLE kinds;

-- Tables that refer to each other, and to themselves with the key.
CREATE TABLE tops (k bigint, id int, bottom int, up int, PRIMARY KEY (k, id), FOREIGN KEY (k, up) REFERENCES tops);
CREATE TABLE bottoms (k bigint, id int, top int, PRIMARY KEY (k, id), FOREIGN KEY (k, top) REFERENCES tops DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE tops ADD FOREIGN KEY (k, bottom) REFERENCES bottoms DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO tops SELECT g, 1, 1, 1 FROM generate_series(1, 10) g;
INSERT INTO bottoms SELECT g, 1, 1 FROM generate_series(1, 10) g;
COMMIT;
SELECT shardlet.distribute('tops', 'fk', 'k');
SELECT shardlet.distribute_tables('{tops, bottoms}', 'fk', '{k}');
SELECT * FROM on_shards();
SELECT count(*) FROM tops JOIN bottoms USING (k, id);
\set VERBOSITY sqlstate
INSERT INTO bottoms VALUES (1, 2, 7);
\set VERBOSITY default

-- Partitions, as both sides.
CREATE TABLE whole (k bigint, id int, PRIMARY KEY (k, id)) PARTITION BY RANGE (id);
CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10);
CREATE TABLE piece (k bigint NOT NULL, id int, FOREIGN KEY (k, id) REFERENCES whole) PARTITION BY RANGE (id);
CREATE TABLE piece_1 PARTITION OF piece FOR VALUES FROM (0) TO (10);
INSERT INTO whole SELECT g, 1 FROM generate_series(1, 10) g;
INSERT INTO piece SELECT g, 1 FROM generate_series(1, 10) g;
SELECT shardlet.distribute('piece', 'fk', 'k');
SELECT shardlet.distribute_tables('{piece, whole}', 'fk', '{k}');
SELECT count(*) FROM piece JOIN whole USING (k, id);
\set VERBOSITY sqlstate
INSERT INTO piece VALUES (1, 2);
\set VERBOSITY default

-- A spread map has no key: only reference tables can be referred to.
SELECT shardlet.create_map('fk_spread', 'spread');
CREATE TABLE clicks (product int REFERENCES products, at int);
CREATE TABLE other_products (id int PRIMARY KEY);
CREATE TABLE stray (other int REFERENCES other_products);
SELECT shardlet.distribute('stray', 'fk_spread');
SELECT shardlet.distribute_tables('{clicks}', 'fk_spread', NULL);

-- What the call itself may be.
SELECT shardlet.distribute_tables('{}', 'fk', '{k}');
SELECT shardlet.distribute_tables(NULL, 'fk', '{k}');
SELECT shardlet.distribute_tables('{stray, NULL}', 'fk', '{k}');
SELECT shardlet.distribute_tables('{stray, stray}', 'fk', '{k}');
SELECT shardlet.distribute_tables('{stray, other_products}', 'fk', '{k, k, k}');
SELECT shardlet.distribute_tables('{stray, other_products}', 'fk', NULL);
DROP TABLE clicks, stray, other_products;

-- Placed tables on one shard.
CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a, b int REFERENCES b);
SELECT shardlet.place('b', 's2');
SELECT shardlet.place('a', 's2');
ALTER TABLE b DROP CONSTRAINT b_a_fkey;
SELECT shardlet.place('b', 's2');
SELECT shardlet.place('a', 's2');
ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a;

-- The copies of a reference table go only when no foreign key leans on them.
CREATE TABLE uses (k bigint NOT NULL, product int REFERENCES products);
SELECT shardlet.distribute('uses', 'fk', 'k');
SELECT * FROM on_shards() WHERE tbl = 'uses';
SELECT shardlet.undistribute('products');
SELECT * FROM on_shards() WHERE tbl = 'uses';
SELECT shardlet.undistribute('uses');
\d uses

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
SELECT shardlet.drop_map('fk'), shardlet.drop_map('fk_other'), shardlet.drop_map('fk_list'), shardlet.drop_map('fk_spread');
