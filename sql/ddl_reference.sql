-- DDL on a reference table: complete on the router, and the same on every shard,
-- where its triggers are not.
CREATE SCHEMA ddl_reference;
SET search_path = ddl_reference;
SELECT shardlet.create_map('dx', shards => '{s1,s2,s3}'), shardlet.create_map('dy', shards => '{s1,s2,s3,s4}');
CREATE TABLE products (id serial PRIMARY KEY, name text UNIQUE, price numeric);
INSERT INTO products (name) VALUES ('nut'), ('bolt');
SELECT shardlet.make_reference('products');
CREATE TABLE orders (k bigint PRIMARY KEY, product int);
SELECT shardlet.distribute('orders', 'dx', 'k');
CREATE FUNCTION there(sql text) RETURNS TABLE (answer text, shards bigint) LANGUAGE sql AS $$
	SELECT a, count(*) FROM shardlet.query('dy', sql, per_shard => true) AS q(a text) GROUP BY a ORDER BY a $$;
CREATE FUNCTION shape(tbl text) RETURNS TABLE (place text, shape text) LANGUAGE plpgsql AS $$
DECLARE
	sql text := format($q$SELECT string_agg(format('%%s %%s', attname, format_type(atttypid, atttypmod)) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END, ', ' ORDER BY attname) || ' - ' ||
		(SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = %1$L::regclass AND contype <> 'n') || ' - ' ||
		(SELECT string_agg(indexrelid::regclass::text, ', ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = %1$L::regclass)
		FROM pg_attribute WHERE attrelid = %1$L::regclass AND attnum > 0 AND NOT attisdropped$q$, tbl);
BEGIN
	place := 'router';
	EXECUTE sql INTO shape;
	RETURN NEXT;
	RETURN QUERY SELECT shards || ' shards', answer FROM there(sql);
END $$;
SELECT * FROM shape('products');

ALTER TABLE products ADD a int DEFAULT 5 NOT NULL, ADD b timestamptz DEFAULT now(), ADD CONSTRAINT positive CHECK (a > 0), DROP price;
SELECT * FROM shape('products');
SELECT b = (SELECT b FROM products WHERE id = 1) AS same, count(*) FROM shardlet.query('dy', 'SELECT b FROM products') AS q(b timestamptz) GROUP BY 1;
ALTER TABLE products DROP CONSTRAINT positive, ALTER a TYPE text USING a || 'x', DROP b, SET (fillfactor = 50), REPLICA IDENTITY FULL, ALTER name SET NOT NULL;
UPDATE products SET a = 'new' WHERE id = 2;
INSERT INTO products VALUES (3, 'nail', 'old');
SELECT * FROM there('SELECT string_agg(concat_ws('' '', id, name, a), '', '' ORDER BY id) FROM products');
CREATE INDEX products_a ON products (a);
CREATE UNIQUE INDEX products_aa ON products (a, id) WHERE id > 0;
ALTER INDEX products_a RENAME TO products_index;
COMMENT ON INDEX products_index IS 'an index';
COMMENT ON TABLE products IS 'a table';
COMMENT ON COLUMN products.name IS 'a column';
COMMENT ON CONSTRAINT products_pkey ON products IS 'a constraint';
SELECT * FROM shape('products');
SELECT * FROM there($$SELECT concat_ws(', ', obj_description('products_index'::regclass, 'pg_class'), obj_description('products'::regclass, 'pg_class'), col_description('products'::regclass, 2),
	(SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname = 'products_pkey' AND conrelid = 'products'::regclass))$$);
REINDEX INDEX products_index;
REINDEX TABLE products;
CLUSTER products USING products_index;
DROP INDEX products_index, products_aa;
ALTER TABLE products RENAME a TO "A";
ALTER TABLE products RENAME CONSTRAINT products_name_key TO names;
ALTER TABLE products RENAME TO goods;
SELECT * FROM shape('goods');
UPDATE goods SET "A" = 'newer' WHERE id = 2;
SELECT * FROM there('SELECT string_agg("A", '', '' ORDER BY id) FROM goods');
GRANT SELECT ON goods TO PUBLIC;
SELECT * FROM there('SELECT has_table_privilege(''public'', ''goods'', ''SELECT'')::text');
BEGIN; LOCK TABLE goods IN SHARE MODE; SELECT * FROM there('SELECT count(*)::text FROM pg_locks WHERE relation = ''goods''::regclass AND mode = ''ShareLock'' AND pid = pg_backend_pid()'); ROLLBACK;
VACUUM goods;
BEGIN; ALTER TABLE goods ADD z int; INSERT INTO goods VALUES (4, 'x', 'y', 5); SELECT * FROM there('SELECT sum(z)::text FROM goods'); ROLLBACK;
SELECT * FROM there('SELECT count(*)::text FROM goods');

-- Foreign keys: from sharded tables, to other reference tables.
CREATE TABLE kinds (id int PRIMARY KEY);
ALTER TABLE goods ADD kind int;
ALTER TABLE goods ADD FOREIGN KEY (kind) REFERENCES kinds;
SELECT shardlet.make_reference('kinds');
ALTER TABLE goods ADD FOREIGN KEY (kind) REFERENCES kinds;
ALTER TABLE orders ADD FOREIGN KEY (product) REFERENCES goods, ADD kind int REFERENCES kinds ON DELETE SET NULL DEFERRABLE;
SELECT * FROM there($$SELECT coalesce(string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname), '-') FROM pg_constraint WHERE connamespace = 'ddl_reference'::regnamespace AND contype = 'f'$$);
ALTER TABLE goods ADD FOREIGN KEY (id) REFERENCES orders (k);
DROP TABLE goods;

-- The copies would differ, or changes would not be carried.
ALTER TABLE goods ADD v float DEFAULT random();
ALTER TABLE goods ADD s serial;
\set VERBOSITY sqlstate
ALTER TABLE goods ALTER "A" TYPE text USING now()::text;
ALTER TABLE goods ALTER "A" TYPE text USING random()::text;
ALTER TABLE goods DISABLE TRIGGER ALL;
ALTER TABLE goods DISABLE TRIGGER USER;
ALTER TABLE goods ENABLE TRIGGER ALL;
ALTER TABLE goods DISABLE TRIGGER "!shardlet_insert";
DROP TRIGGER "!shardlet_insert" ON goods;
ALTER TABLE goods ENABLE ROW LEVEL SECURITY;
ALTER TABLE goods SET UNLOGGED;
CREATE TABLE child () INHERITS (goods);
CREATE INDEX CONCURRENTLY i ON goods (name);
DROP INDEX CONCURRENTLY products_pkey;
\set VERBOSITY default
ALTER TABLE goods DROP CONSTRAINT products_pkey CASCADE;
-- A new primary key takes the place of the old one at once.
BEGIN; ALTER TABLE goods DROP CONSTRAINT products_pkey CASCADE, ADD PRIMARY KEY (name); SELECT * FROM shape('goods'); ROLLBACK;
-- Triggers of the user are the router's.
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER own BEFORE INSERT ON goods FOR EACH ROW EXECUTE FUNCTION f();
ALTER TABLE goods DISABLE TRIGGER own;
ALTER TRIGGER own ON goods RENAME TO own2;
DROP TRIGGER own2 ON goods;
SELECT * FROM there($$SELECT count(*)::text FROM pg_trigger WHERE tgrelid = 'goods'::regclass AND NOT tgisinternal AND tgname <> '!shardlet_guard'$$);
-- An empty one can have any default.
CREATE TABLE empty (id int PRIMARY KEY);
SELECT shardlet.make_reference('empty');
ALTER TABLE empty ADD s bigserial, ADD u uuid DEFAULT gen_random_uuid();
SELECT * FROM shape('empty');
SELECT * FROM there($$SELECT string_agg(pg_get_expr(adbin, adrelid), ', ' ORDER BY adnum) FROM pg_attrdef WHERE adrelid = 'empty'::regclass$$);

DROP TABLE goods, kinds, empty, orders;
SELECT * FROM there($$SELECT count(*)::text FROM pg_class WHERE relnamespace = 'ddl_reference'::regnamespace AND relkind = 'r'$$);
CREATE TABLE left_over (id int PRIMARY KEY);
SELECT shardlet.make_reference('left_over');
CREATE SCHEMA ddl_reference_2;
ALTER TABLE left_over SET SCHEMA ddl_reference_2;
SELECT * FROM there($$SELECT to_regclass('ddl_reference_2.left_over')::text$$);
DROP SCHEMA ddl_reference_2 CASCADE;
SELECT * FROM there($$SELECT to_regclass('ddl_reference_2.left_over')::text$$);

SET client_min_messages = warning;
DROP SCHEMA ddl_reference CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA ddl_reference, ddl_reference_2 CASCADE');
SELECT shardlet.drop_map('dx'), shardlet.drop_map('dy');
