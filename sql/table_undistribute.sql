-- A table comes back from the shards as it was.
CREATE SCHEMA back;
SET search_path = back;
SELECT shardlet.create_map('back', shardlets => 8);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE orders (
	id bigserial,
	customer_id bigint NOT NULL,
	gone int,
	note text DEFAULT 'none',
	feeling mood,
	number int GENERATED ALWAYS AS IDENTITY,
	doubled bigint GENERATED ALWAYS AS (id * 2) STORED,
	PRIMARY KEY (customer_id, id),
	CONSTRAINT positive CHECK (id > 0)
) WITH (fillfactor = 70);
ALTER TABLE orders DROP COLUMN gone;
CREATE INDEX orders_note ON orders (note);
COMMENT ON INDEX orders_note IS 'by note';
COMMENT ON TABLE orders IS 'comes and goes';
ALTER TABLE orders ALTER note SET COMPRESSION pglz;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := NEW.note || ''!''; RETURN NEW; END';
SELECT count(*) FROM shardlet.execute('back', 'CREATE SCHEMA back');
SELECT count(*) FROM shardlet.execute('back', $$CREATE FUNCTION back.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := NEW.note || ''!''; RETURN NEW; END'$$);
CREATE TRIGGER touch BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO orders (customer_id, note, feeling) SELECT g, repeat('n', 50 * g), 'sad' FROM generate_series(1, 50) g;
CREATE VIEW over AS SELECT customer_id, length(note) FROM orders;
CREATE TABLE before AS SELECT * FROM orders;
\d orders
SELECT shardlet.distribute('orders', 'back', 'customer_id');
SELECT count(*) FROM over;

-- Nothing happens if it is rolled back.
BEGIN;
SELECT shardlet.undistribute('orders');
SELECT count(*) FROM orders;
INSERT INTO orders (customer_id) VALUES (99);
ROLLBACK;
SELECT count(*) FROM orders;
SELECT kind FROM shardlet.tables WHERE tbl = 'orders'::regclass;

-- There and back in one transaction, and then in another.
BEGIN;
SELECT shardlet.undistribute('orders');
SELECT shardlet.distribute('orders', 'back', 'customer_id');
SELECT shardlet.undistribute('orders');
SAVEPOINT s;
SELECT shardlet.distribute('orders', 'back', 'customer_id');
ROLLBACK TO s;
SELECT count(*) FROM orders;
COMMIT;
(TABLE before EXCEPT ALL TABLE orders) UNION ALL (TABLE orders EXCEPT ALL TABLE before);
\d orders
SELECT relkind, reloptions, relfrozenxid <> 0 AS frozen, reltoastrelid <> 0 AS toast FROM pg_class WHERE oid = 'orders'::regclass;
SELECT obj_description('orders'::regclass), obj_description('orders_note'::regclass);
SELECT count(*) FROM over;
INSERT INTO orders (customer_id) VALUES (77) RETURNING id, customer_id, note, number, doubled;
VACUUM FULL orders;
ANALYZE orders;
SELECT count(*) FROM orders WHERE note LIKE 'nn%';
SELECT count(*) FROM shardlet.execute(NULL, $$SELECT 'back.orders'::regclass$$);
SELECT shardlet.undistribute('orders');

-- Rows that were changed on the way, and columns too.
SELECT shardlet.distribute('orders', 'back', 'customer_id');
DELETE FROM orders WHERE customer_id > 10;
ALTER TABLE orders ADD COLUMN more int DEFAULT 5, DROP COLUMN feeling;
SELECT shardlet.undistribute('orders');
SELECT id, customer_id, length(note), doubled, more FROM orders WHERE customer_id < 4 ORDER BY id;

-- Placed and spread tables.
SELECT shardlet.create_map('back_spread', 'spread');
CREATE TABLE log AS SELECT g FROM generate_series(1, 10) g;
SELECT shardlet.distribute('log', 'back_spread');
SELECT shardlet.undistribute('log');
SELECT count(*), sum(g) FROM log;
SELECT shardlet.place('log', 's3');
SELECT shardlet.undistribute('log');
SELECT count(*), sum(g) FROM log;

-- A snapshot from before could leave rows behind.
SELECT shardlet.distribute('log', 'back_spread');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shardlet.undistribute('log');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT shardlet.unassign(min(shardlet)) FROM shardlet.shardlets WHERE map = 'back_spread';
ROLLBACK;
SELECT shardlet.undistribute('log');

SELECT shardlet.undistribute(NULL);
SELECT shardlet.undistribute('over');
SET client_min_messages = warning;
DROP SCHEMA back CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA back CASCADE');
SELECT shardlet.drop_map('back'), shardlet.drop_map('back_spread');
