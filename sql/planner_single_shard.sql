-- Statements that one shard can answer go there as a whole.
CREATE SCHEMA plan_ship;
CREATE SCHEMA plan_ship_plain;
SET search_path = plan_ship, public;
SELECT shardlet.create_map('ps', shards => '{s1,s2,s3}');
SELECT shardlet.create_map('ps3', kind => 'list', shards => '{s1,s2}'), shardlet.assign_keys('ps3', 's1', '{1}'::bigint[]), shardlet.assign_keys('ps3', 's2', '{2}'::bigint[]);
SELECT shardlet.create_map('ps2', key_types => '{text,int}', shards => '{s1,s2,s3}');
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text, region text);
CREATE TABLE orders (customer_id bigint, order_id int, created timestamptz, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id));
CREATE TABLE items (customer_id bigint, order_id int, line int, product_id int, qty int, PRIMARY KEY (customer_id, order_id, line));
CREATE TABLE products (product_id int PRIMARY KEY, category text);
CREATE TABLE pairs (a text, b int, v int, PRIMARY KEY (a, b));
CREATE TABLE config (name text PRIMARY KEY, value int);
CREATE TABLE notes (name text, note text);
CREATE TABLE here (customer_id bigint);
INSERT INTO customers SELECT i, 'name ' || i, chr(97 + i % 3) FROM generate_series(1, 30) i;
INSERT INTO orders SELECT 1 + i % 25, i, timestamptz '2026-01-01 00:00+00' + i * interval '7 hours', (ARRAY['new', 'paid', 'void'])[1 + i % 3], i * 1.5 FROM generate_series(1, 100) i;
INSERT INTO items SELECT 1 + i % 25, i, l, 1 + (i + l) % 7, l FROM generate_series(1, 100) i, generate_series(1, 3) l;
INSERT INTO products SELECT i, 'category ' || i % 3 FROM generate_series(1, 9) i;
INSERT INTO pairs SELECT chr(97 + i % 5), i % 7, i FROM generate_series(1, 35) i;
INSERT INTO config VALUES ('a', 1), ('b', 2);
INSERT INTO notes VALUES ('a', 'first'), ('a', 'second');
INSERT INTO here VALUES (7);
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY '{customers,orders,items,products,pairs,config,notes,here}'::text[] LOOP
		EXECUTE format('CREATE TABLE plan_ship_plain.%I (LIKE plan_ship.%1$I INCLUDING ALL)', name);
		EXECUTE format('INSERT INTO plan_ship_plain.%I TABLE plan_ship.%1$I', name);
	END LOOP;
END $$;
SELECT shardlet.distribute('customers', 'ps', 'customer_id'), shardlet.distribute('orders', 'ps', 'customer_id'), shardlet.distribute('items', 'ps', 'customer_id');
SELECT shardlet.make_reference('products'), shardlet.distribute('pairs', 'ps2', 'a, b');
CREATE TABLE listed (k bigint NOT NULL, v int);
SELECT shardlet.distribute('listed', 'ps3', 'k');
SELECT shardlet.place('config', 's2'), shardlet.place('notes', 's2');
-- Ways to name one key.
SELECT by_road('SELECT * FROM orders WHERE customer_id = 5');
SELECT by_road('SELECT * FROM orders WHERE 5 = customer_id AND order_id > 10 ORDER BY total DESC LIMIT 2');
SELECT by_road('SELECT * FROM orders WHERE customer_id IN (5)');
SELECT by_road('SELECT * FROM orders WHERE customer_id = 2 + 3');
SELECT by_road('SELECT * FROM orders WHERE customer_id = length(current_setting(''search_path'')) - length(current_setting(''search_path'')) + 5');
SELECT by_road('SELECT * FROM orders WHERE customer_id = 5::smallint');
SELECT by_road('SELECT * FROM orders WHERE customer_id = 5::numeric');
SELECT by_road('SELECT count(*), max(total) FROM orders WHERE customer_id = NULL');
SELECT by_road('SELECT count(*) FROM orders WHERE customer_id = 5 AND customer_id = 6');
SELECT by_road('SELECT * FROM orders WHERE customer_id = 5 OR customer_id = 6');
SELECT by_road('SELECT * FROM orders WHERE customer_id IN (5, 6)');
SELECT by_road('SELECT * FROM pairs WHERE a = ''b'' AND b = 3');
SELECT by_road('SELECT * FROM pairs WHERE (a, b) = (''b'', 3)');
SELECT by_road('SELECT * FROM pairs WHERE a = ''b''');
-- A limit, a window or DISTINCT ON in an arm of UNION is of all rows.
SELECT by_road('SELECT * FROM ((SELECT customer_id, order_id FROM orders ORDER BY order_id LIMIT 2) UNION ALL (SELECT customer_id, qty FROM items)) s WHERE s.customer_id = 5');
SELECT by_road('SELECT * FROM ((SELECT customer_id, row_number() OVER (ORDER BY order_id) FROM orders) UNION ALL (SELECT customer_id, qty FROM items)) s WHERE s.customer_id = 5');
-- Whatever is inside.
SELECT by_road('SELECT status, count(*), avg(total), string_agg(order_id::text, '','' ORDER BY order_id) FROM orders WHERE customer_id = 5 GROUP BY ROLLUP (status)');
SELECT by_road('SELECT order_id, row_number() OVER (ORDER BY total), sum(total) OVER () FROM orders WHERE customer_id = 5');
SELECT by_road('SELECT DISTINCT ON (status) status, order_id FROM orders WHERE customer_id = 5 ORDER BY status, order_id');
SELECT by_road('WITH RECURSIVE r(n, t) AS (SELECT min(order_id), 0::numeric FROM orders WHERE customer_id = 5 UNION ALL SELECT o.order_id, o.total FROM r JOIN orders o ON o.order_id = r.n + 25 WHERE o.customer_id = 5) SELECT * FROM r');
SELECT by_road('SELECT order_id FROM orders WHERE customer_id = 5 UNION SELECT order_id FROM items WHERE customer_id = 5 EXCEPT SELECT 4');
SELECT by_road('SELECT order_id FROM orders WHERE customer_id = 5 UNION SELECT order_id FROM items WHERE customer_id = 6');
SELECT by_road('SELECT category, count(*), sum(qty) FROM orders JOIN items USING (customer_id, order_id) JOIN products USING (product_id) WHERE customer_id = 5 GROUP BY category ORDER BY 3 DESC, 1 LIMIT 2');
SELECT by_road('SELECT p.product_id, i.qty FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.customer_id = 5');
SELECT by_road('SELECT p.product_id, i.qty FROM products p FULL JOIN (SELECT * FROM items WHERE customer_id = 5) i ON i.product_id = p.product_id');
SELECT by_road('SELECT g, o.order_id FROM generate_series(4, 40, 9) g LEFT JOIN orders o ON o.customer_id = 5 AND o.order_id = g');
-- Equality is carried along.
SELECT by_road('SELECT o.order_id, i.line FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id WHERE o.customer_id = 5');
SELECT by_road('SELECT o.order_id, i.line FROM orders o JOIN items i ON i.order_id = o.order_id WHERE o.customer_id = 5');
SELECT by_road('SELECT o.order_id, i.line FROM orders o, items i, customers c WHERE c.customer_id = i.customer_id AND o.customer_id = c.customer_id AND i.customer_id = 5');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 20 WHERE c.customer_id = 5');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = 5 AND c.customer_id = 5');
SELECT by_road('SELECT c.name, o.order_id FROM orders o RIGHT JOIN customers c ON o.customer_id = c.customer_id WHERE c.customer_id = 5');
SELECT by_road('SELECT c.name, o.order_id FROM orders o FULL JOIN customers c ON o.customer_id = c.customer_id WHERE c.customer_id = 5');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = 5 WHERE c.customer_id = 5');
SELECT by_road('SELECT c.name FROM customers c WHERE customer_id = 5 AND EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id)');
SELECT by_road('SELECT c.name, (SELECT max(total) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c WHERE customer_id = 5');
SELECT by_road('SELECT c.name, (SELECT max(total) FROM orders o) FROM customers c WHERE customer_id = 5');
SELECT by_road('SELECT c.name FROM customers c WHERE customer_id = 5 AND customer_id IN (SELECT customer_id FROM orders WHERE total > 3)');
SELECT by_road('SELECT c.name FROM customers c WHERE customer_id IN (SELECT customer_id FROM orders WHERE customer_id = 5)');
SELECT by_road('SELECT c.name FROM customers c WHERE customer_id = 5 AND customer_id NOT IN (SELECT customer_id FROM orders WHERE customer_id = 6)');
SELECT by_road('SELECT * FROM (SELECT customer_id, count(*) FROM orders GROUP BY customer_id) s WHERE customer_id = 5');
SELECT by_road('SELECT * FROM (SELECT customer_id, order_id FROM orders ORDER BY order_id LIMIT 50) s WHERE customer_id = 5');
SELECT by_road('SELECT * FROM (SELECT customer_id, order_id FROM orders UNION ALL SELECT customer_id, order_id FROM items) s WHERE customer_id = 5');
SELECT by_road('WITH o AS (SELECT * FROM orders WHERE customer_id = 5) SELECT a.order_id, b.order_id FROM o a JOIN o b ON a.order_id < b.order_id');
SELECT by_road('WITH o AS (SELECT * FROM orders) SELECT * FROM o WHERE customer_id = 5');
SELECT by_road('WITH o AS (SELECT * FROM orders) SELECT * FROM o WHERE customer_id = 5 AND order_id < (SELECT max(order_id) FROM o)');
SELECT by_road('SELECT c.name, l.order_id FROM customers c, LATERAL (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY total DESC LIMIT 2) l WHERE c.customer_id = 5');
SELECT by_road('SELECT * FROM (VALUES (5, ''a''), (5, ''b'')) v(k, t) JOIN orders o ON o.customer_id = v.k');
-- Not these.
SELECT by_road('SELECT o.order_id FROM orders o JOIN here h ON h.customer_id = o.customer_id WHERE o.customer_id = 7');
SELECT by_road('SELECT o.order_id, c.value FROM orders o, config c WHERE o.customer_id = 7');
SELECT by_road('SELECT order_id, random() < 2 FROM orders WHERE customer_id = 7');
SELECT by_road('SELECT o.customer_id, p.b FROM orders o JOIN pairs p ON p.b = o.order_id WHERE o.customer_id = 7 AND p.a = ''a'' AND p.b = 6');
-- Placed tables go where they are.
SELECT by_road('SELECT c.*, n.note FROM config c LEFT JOIN notes n USING (name)');
SELECT by_road('SELECT count(*) FROM config, products');
-- What the shard gets.
EXPLAIN (VERBOSE, COSTS OFF) SELECT c.name, o.total * 2 AS twice FROM customers c JOIN orders o USING (customer_id) WHERE customer_id = 5 AND o.created < now() ORDER BY o.total LIMIT 3;
PREPARE keyed(bigint, int) AS SELECT o.order_id, i.line FROM orders o JOIN items i USING (customer_id, order_id) WHERE customer_id = $1 AND line <= $2 ORDER BY 1, 2 LIMIT $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE keyed(5, 2);
EXECUTE keyed(5, 2);
EXECUTE keyed(6, 1);
EXECUTE keyed(NULL, 1);
EXECUTE keyed(1000, 1);
RESET plan_cache_mode;
-- Changes.
CREATE FUNCTION change(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	road text := public.road(statement);
	here int;
	there int;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS here = ROW_COUNT;
	PERFORM set_config('search_path', 'plan_ship_plain', true);
	EXECUTE statement;
	GET DIAGNOSTICS there = ROW_COUNT;
	PERFORM set_config('search_path', 'plan_ship, public', true);
	RETURN format('%s %s%s', road, here, CASE WHEN here <> there THEN ' DIFFERENT' END);
END $$;
SELECT change('UPDATE orders SET total = total + 1 WHERE customer_id = 5');
SELECT change('UPDATE orders o SET status = c.name FROM customers c WHERE c.customer_id = o.customer_id AND o.customer_id = 6');
SELECT change('UPDATE orders SET customer_id = 7 WHERE customer_id = 8 AND order_id = 7');
SELECT change('DELETE FROM items i USING products p WHERE p.product_id = i.product_id AND i.customer_id = 5 AND category = ''category 1''');
SELECT change('INSERT INTO orders (order_id, customer_id, total) VALUES (500, 5, 1)');
SELECT change('INSERT INTO orders (total, order_id, customer_id) VALUES (1, 501, 5), (2, 502, 5)');
SELECT change('INSERT INTO orders (order_id, customer_id) SELECT order_id + 1000, customer_id FROM orders WHERE customer_id = 5');
SELECT change('INSERT INTO customers VALUES (5, ''x'') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name || ''!''');
SELECT change('WITH gone AS (DELETE FROM items WHERE customer_id = 6 AND line = 1 RETURNING *) INSERT INTO orders (customer_id, order_id) SELECT customer_id, order_id + 2000 FROM gone WHERE customer_id = 6');
SELECT change('UPDATE config SET value = value + 1 WHERE name = ''a''');
SELECT by_road('TABLE orders'), by_road('TABLE items'), by_road('TABLE customers'), by_road('TABLE config');
UPDATE orders SET total = 9 WHERE customer_id = 5 AND order_id = 4 RETURNING order_id, total, status;
SELECT order_id, total FROM orders WHERE customer_id = 5 AND order_id < 40 ORDER BY order_id FOR UPDATE;
DELETE FROM orders WHERE customer_id = 5 AND order_id >= 500 RETURNING order_id;
CREATE FUNCTION lock_them() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM orders WHERE customer_id = 5 FOR UPDATE; RETURN 1; END';
SELECT lock_them();
BEGIN READ ONLY;
SELECT 1 FROM orders WHERE customer_id = 5 FOR SHARE;
ROLLBACK;
-- Errors are those of the shard, and nothing is left.
INSERT INTO customers VALUES (5, 'again');
INSERT INTO customers VALUES (NULL, 'nobody');
INSERT INTO listed VALUES (1, 1);
INSERT INTO listed VALUES (3, 1);
INSERT INTO listed SELECT 3, product_id FROM products;
UPDATE listed SET v = 5 WHERE k = 3;
SELECT count(*) FROM listed WHERE k = 3;
UPDATE orders SET total = 1 / 0 WHERE customer_id = 5;
SELECT total / (order_id - 4) FROM orders WHERE customer_id = 5 AND order_id = 4;
-- Privileges are those of the router.
CREATE ROLE plan_ship_user;
GRANT USAGE ON SCHEMA plan_ship TO plan_ship_user;
GRANT SELECT (customer_id, name) ON customers TO plan_ship_user;
SET ROLE plan_ship_user;
SELECT name FROM customers WHERE customer_id = 6;
SELECT region FROM customers WHERE customer_id = 6;
UPDATE customers SET name = 'x' WHERE customer_id = 6;
RESET ROLE;
-- A trigger here is not passed over.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''% % %'', TG_OP, NEW.customer_id, NEW.name; RETURN NEW; END';
SET shardlet.carry_ddl = off;
CREATE TRIGGER tell BEFORE UPDATE ON customers FOR EACH ROW EXECUTE FUNCTION tell();
UPDATE customers SET name = 'told' WHERE customer_id = 6;
DROP TRIGGER tell ON customers;
RESET shardlet.carry_ddl;
UPDATE customers SET name = 'untold' WHERE customer_id = 6;
-- Cursors, and statements in functions.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT order_id FROM orders WHERE customer_id = 9 ORDER BY order_id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
COMMIT;
DO $$
DECLARE
	n int := 0;
	k bigint;
BEGIN
	FOR k IN 1..25 LOOP
		n := n + (SELECT count(*) FROM orders WHERE customer_id = k);
	END LOOP;
	RAISE NOTICE '%', n = (SELECT count(*) FROM orders);
END $$;
-- Plans follow what tables look like.
SET plan_cache_mode = force_generic_plan;
PREPARE star AS SELECT * FROM customers WHERE customer_id = 6;
EXECUTE star;
ALTER TABLE customers ADD COLUMN extra int DEFAULT 3;
PREPARE extra(bigint) AS SELECT extra FROM customers WHERE customer_id = $1;
EXECUTE extra(6);
ALTER TABLE customers ALTER COLUMN extra TYPE text;
EXECUTE extra(6);
ALTER TABLE customers DROP COLUMN extra;
EXECUTE extra(6);
EXECUTE star;
RESET plan_cache_mode;
-- Nor on what backslashes mean when it runs.
SET plan_cache_mode = force_generic_plan;
SET escape_string_warning = off;
PREPARE one AS SELECT coalesce(NULLIF(name, name), 'it''s \') FROM customers WHERE customer_id = 6;
PREPARE each AS SELECT 'a\b' || name FROM customers WHERE region = 'a' AND customer_id < 7 ORDER BY customer_id;
PREPARE fetched AS SELECT count(*) FROM customers c WHERE name <> 'x\' AND customer_id < (SELECT max(customer_id) FROM here);
EXECUTE one;
EXECUTE each;
EXECUTE fetched;
SET standard_conforming_strings = off;
EXECUTE one;
EXECUTE each;
EXECUTE fetched;
PREPARE other AS SELECT 'a\\b' || name FROM customers WHERE customer_id = 6;
EXECUTE other;
RESET standard_conforming_strings;
EXECUTE other;
RESET escape_string_warning;
RESET plan_cache_mode;
-- What is not asked for is not computed.
CREATE FUNCTION boom(x text) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE EXCEPTION 'boom %', x; END $$;
SELECT CASE WHEN order_id < 0 THEN boom('negative') ELSE 0 END AS c FROM orders WHERE customer_id = 5 LIMIT 1;
SELECT boom('no row') FROM orders WHERE customer_id = 5 AND order_id < 0;
PREPARE guarded(int) AS SELECT CASE WHEN $1 = 0 THEN -1 ELSE (SELECT count(*) FROM orders WHERE customer_id = 10 / $1) END AS c;
EXECUTE guarded(2);
EXECUTE guarded(0);
-- Nor what fails, if PostgreSQL would not have met it.
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE amounts (k bigint PRIMARY KEY, amount positive, day date);
CREATE TABLE plan_ship_plain.amounts (LIKE amounts);
INSERT INTO amounts SELECT i, i, '2026-01-01' FROM generate_series(1, 9) i;
INSERT INTO plan_ship_plain.amounts TABLE amounts;
SELECT shardlet.distribute('amounts', 'ps', 'k');
UPDATE amounts SET amount = 0 WHERE k = 100;
UPDATE amounts SET amount = 0 WHERE amount = 100;
UPDATE amounts SET amount = 0 WHERE k = 3;
UPDATE amounts SET amount = 33 WHERE k = 3 RETURNING amount;
UPDATE amounts SET day = to_date('99/99/2026', 'MM/DD/YYYY') WHERE k = 100;
UPDATE amounts SET amount = CASE WHEN true THEN 3 ELSE amount + 1/0 END WHERE k = 3 RETURNING amount;
SELECT by_road('SELECT CASE WHEN amount > 100 THEN (-1)::plan_ship.positive ELSE 1 END FROM amounts WHERE k = 3');
SELECT by_road('SELECT CASE WHEN amount > 100 THEN (-1)::plan_ship.positive ELSE 1 END FROM amounts');
SELECT by_road('SELECT CASE WHEN amount > 100 THEN to_date(''99/99/2026'', ''MM/DD/YYYY'') ELSE day END FROM amounts WHERE k = 3');
SELECT by_road('SELECT CASE WHEN amount > 100 THEN to_date(''02/03/2026'', ''MM/DD/YYYY'') ELSE day END FROM amounts WHERE k = 3');
SELECT by_road('SELECT CASE WHEN amount > 100 THEN current_setting(''no.such'') END FROM amounts WHERE k = 3');
SELECT by_road('SELECT to_date(''99/99/2026'', ''MM/DD/YYYY''), amount FROM amounts WHERE k = 100');
SELECT by_road('SELECT CASE WHEN false THEN 1/0 ELSE amount END FROM amounts');
SELECT by_road('SELECT CASE WHEN 0 = 0 THEN amount ELSE amount + 100/0 END FROM amounts WHERE k = 3');
SELECT by_road('SELECT count(*) FROM amounts WHERE false AND amount = 1/0');
SELECT by_road('SELECT count(*) FROM amounts WHERE true OR amount = 1/0');
SELECT by_road('SELECT coalesce(1, amount, 1/0) FROM amounts WHERE k = 3');
SELECT by_road('SELECT 1 FROM amounts WHERE false AND k = 1/0');
SELECT by_road('SELECT amount FROM amounts WHERE 1 = 1 AND k = 2 + 1');
SELECT by_road('SELECT amount FROM (SELECT k, amount, 1/0 AS x FROM amounts) s WHERE k = 3');
SELECT by_road('WITH nobody AS (SELECT k FROM amounts WHERE k = 1/0) SELECT amount FROM amounts WHERE k = 3');
PREPARE stopped(int) AS SELECT count(*) FROM amounts WHERE $1 > 0 AND k = 6 / $1;
EXECUTE stopped(2);
EXECUTE stopped(0);
SELECT amount FROM amounts WHERE k = 1/0;
SELECT 1/0 FROM amounts WHERE k = 100;
DROP TABLE amounts;
-- Rules of views, in which OLD is a relation of its own.
CREATE VIEW named AS SELECT customer_id, name FROM customers;
CREATE RULE named_update AS ON UPDATE TO named DO INSTEAD UPDATE customers SET name = new.name WHERE customer_id = old.customer_id;
CREATE RULE named_delete AS ON DELETE TO named DO INSTEAD DELETE FROM orders WHERE customer_id = old.customer_id;
SELECT road('UPDATE named SET name = ''both'' WHERE customer_id = 6');
BEGIN;
UPDATE named SET name = 'both' WHERE customer_id = 6;
UPDATE named SET name = name || '!' WHERE name LIKE 'name 2_';
SELECT customer_id, name FROM customers WHERE name !~ '^name \d+$' ORDER BY 1;
DELETE FROM named WHERE customer_id = 6;
DELETE FROM named WHERE name = 'name 7';
SELECT count(*) FROM orders WHERE customer_id IN (6, 7);
ROLLBACK;
-- An INSERT of a rule has FROM and WHERE of the statement that the rule is for.
CREATE RULE named_log AS ON UPDATE TO named DO ALSO INSERT INTO listed VALUES (1, old.customer_id);
CREATE RULE named_insert AS ON INSERT TO named WHERE new.customer_id > 900 DO ALSO INSERT INTO listed VALUES (1, new.customer_id);
DELETE FROM listed;
UPDATE named SET name = 'logged' WHERE customer_id = 9;
UPDATE named SET name = 'logged' FROM products p JOIN config c ON c.value = p.product_id WHERE customer_id = p.product_id + 9;
INSERT INTO named VALUES (899, 'small');
INSERT INTO named VALUES (901, 'large');
INSERT INTO named VALUES (898, 'small'), (902, 'large');
SELECT * FROM listed ORDER BY v;
DELETE FROM customers WHERE customer_id > 800;
DROP VIEW named;
-- An UPDATE that sets generated columns only, with each kind of plan.
CREATE TABLE sums (k bigint PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
SELECT shardlet.distribute('sums', 'ps', 'k');
INSERT INTO sums VALUES (1, 1), (2, 2), (3, 3);
UPDATE sums SET twice = DEFAULT WHERE k = 1 RETURNING *;
UPDATE sums SET twice = DEFAULT;
INSERT INTO sums VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET twice = DEFAULT RETURNING *;
WITH u AS (UPDATE sums SET twice = DEFAULT WHERE k = 2 RETURNING *) TABLE u;
INSERT INTO sums SELECT k, 5 FROM generate_series(1, 3) k ON CONFLICT (k) DO UPDATE SET twice = DEFAULT;
UPDATE sums SET twice = DEFAULT FROM here WHERE k < here.customer_id;
SELECT * FROM sums ORDER BY k;
DROP TABLE sums;
-- XML is read whatever the session takes for XML.
CREATE TABLE pages (k bigint PRIMARY KEY, page xml);
SELECT shardlet.distribute('pages', 'ps', 'k');
INSERT INTO pages VALUES (1, 'text<b/>'), (2, '<a/>');
SET xmloption = document;
SELECT page FROM pages WHERE k = 1;
SELECT page FROM pages ORDER BY k;
UPDATE pages SET k = k WHERE k = 2 RETURNING page;
SHOW xmloption;
RESET xmloption;
DROP TABLE pages;
-- Of very many constants not all become parameters.
SELECT cardinality(rows_of('plan_ship', 'SELECT order_id FROM orders WHERE customer_id = 5 AND (' || string_agg('order_id = ' || i, ' OR ') || ')')) FROM generate_series(1, 66000) i;
-- The plan can be switched off.
SET shardlet.ship = off;
SELECT by_road('SELECT * FROM orders WHERE customer_id = 6');
SET shardlet.scatter = off;
SELECT by_road('SELECT * FROM orders WHERE customer_id = 6');
SELECT by_road('SELECT c.name, (SELECT max(total) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c WHERE customer_id = 5');
RESET shardlet.ship;
RESET shardlet.scatter;
SET client_min_messages = warning;
DROP OWNED BY plan_ship_user;
DROP TABLE customers, orders, items, products, pairs, config, notes, listed;
DROP ROLE plan_ship_user;
DROP SCHEMA plan_ship, plan_ship_plain CASCADE;
SELECT shardlet.drop_map('ps'), shardlet.drop_map('ps2'), shardlet.drop_map('ps3');
