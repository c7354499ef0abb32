-- COPY of a sharded table, from and to, in every format: the same rows and the
-- same errors as with a plain table.
CREATE SCHEMA tf;
SET search_path = tf;
SELECT shardlet.create_map('tf_map');
CREATE TABLE orders (
	customer_id bigint,
	order_id bigint,
	status text,
	total numeric(12,2) CHECK (total >= 0),
	PRIMARY KEY (customer_id, order_id));
CREATE TABLE plain (LIKE orders INCLUDING ALL);
SELECT shardlet.distribute('orders', 'tf_map', 'customer_id');
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (TABLE orders EXCEPT ALL TABLE plain) a)
		+ (SELECT count(*) FROM (TABLE plain EXCEPT ALL TABLE orders) b) $$;

-- Text: escapes, NULL, columns in another order and fewer of them.
COPY orders FROM STDIN;
1	1	tab\tnewline\nback\\slash\x41	5
2	1	\N	\N
3	1		0
\.
\echo :ROW_COUNT
COPY orders (status, order_id, customer_id) FROM STDIN WITH (DELIMITER '|', NULL 'NIL');
NIL|1|4
a b|1|5
\.
SELECT *, length(status) FROM orders ORDER BY 1, 2;
COPY (SELECT * FROM orders ORDER BY 1, 2) TO STDOUT;
-- CSV: quotes, line breaks, empty and NULL, a header, odd marks.
COPY orders FROM STDIN WITH (FORMAT csv, HEADER);
customer_id,order_id,status,total
10,1,"line
break, ""quoted""",1
11,1,,2
12,1,"",3
\.
COPY orders FROM STDIN WITH (FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '/', NULL '-', HEADER match);
customer_id;order_id;status;total
13;1;'a/'b;c';-
14;1;-;4
\.
COPY orders FROM STDIN WITH (FORMAT csv, FORCE_NULL (status), FORCE_NOT_NULL (total), NULL '7');
15,1,"7",7
\.
SELECT * FROM orders WHERE customer_id BETWEEN 10 AND 19 ORDER BY 1;
-- COPY TO writes what COPY of a plain table does.
INSERT INTO plain TABLE orders;
COPY (SELECT * FROM orders WHERE customer_id = 10) TO STDOUT WITH (FORMAT csv, HEADER, FORCE_QUOTE *);
CREATE TABLE file (line text);
CREATE FUNCTION write_and_read(tbl text, options text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('COPY %s TO PROGRAM ''cat > tf_copy.tmp'' WITH (%s)', tbl, options);
	TRUNCATE tf.file;
	COPY tf.file FROM PROGRAM 'sed s/\\\\/\\\\\\\\/g tf_copy.tmp' WITH (DELIMITER E'\x01');
	RETURN QUERY SELECT line FROM tf.file ORDER BY line;
END $$;
SELECT a.line, b.line FROM (SELECT row_number() OVER () AS i, line FROM write_and_read('tf.orders (total, customer_id)', 'FORMAT csv, HEADER') line) a
	FULL JOIN (SELECT row_number() OVER () AS i, line FROM write_and_read('tf.plain (total, customer_id)', 'FORMAT csv, HEADER') line) b USING (i)
	WHERE a.line IS DISTINCT FROM b.line;
-- There and back: many rows, text, csv and binary, from a file and a program.
INSERT INTO plain SELECT g % 97, g, CASE WHEN g % 7 = 0 THEN NULL ELSE E'row\t' || g END, g FROM generate_series(100, 4000) g;
\set VERBOSITY terse
COPY plain TO PROGRAM 'cat > tf_text.tmp';
COPY plain TO PROGRAM 'cat > tf_csv.tmp' (FORMAT csv, HEADER);
COPY plain TO PROGRAM 'cat > tf_binary.tmp' (FORMAT binary);
TRUNCATE orders;
COPY orders FROM PROGRAM 'cat tf_text.tmp';
\echo :ROW_COUNT
SELECT differences();
TRUNCATE orders;
COPY orders FROM PROGRAM 'cat tf_csv.tmp' (FORMAT csv, HEADER);
SELECT differences();
TRUNCATE orders;
COPY orders FROM PROGRAM 'cat tf_binary.tmp' (FORMAT binary);
\echo :ROW_COUNT
SELECT differences();
TRUNCATE plain;
COPY orders TO PROGRAM 'cat > tf_binary.tmp' (FORMAT binary);
COPY plain FROM PROGRAM 'cat tf_binary.tmp' (FORMAT binary);
SELECT differences();
COPY file FROM PROGRAM 'rm -f tf_text.tmp tf_csv.tmp tf_binary.tmp tf_copy.tmp';
SELECT count(*) FROM shardlet.query('tf_map', 'SELECT customer_id FROM tf.orders') AS (customer_id bigint, shardlet_shard name)
	WHERE shardlet_shard <> shardlet.route('tf_map', customer_id);

-- What leaves something to the router goes through the executor.
TRUNCATE orders;
COPY orders FROM STDIN WHERE total > 5;
1	1	a	5
2	1	a	6
\.
\echo :ROW_COUNT
CREATE TABLE serials (customer_id bigint, id serial, at timestamptz DEFAULT now(), twice bigint GENERATED ALWAYS AS (customer_id * 2) STORED, PRIMARY KEY (customer_id, id));
SELECT shardlet.distribute('serials', 'tf_map', 'customer_id');
COPY serials (customer_id) FROM STDIN;
5
6
\.
SELECT customer_id, id, at IS NOT NULL AS has_time, twice FROM serials ORDER BY 1;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % %', tg_when, tg_level, new.customer_id;
	RETURN new;
END $$;
CREATE TRIGGER tell_before BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tell_after AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tell_end AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION tell();
COPY orders FROM STDIN;
7	1	a	5
8	1	a	6
\.
DROP TRIGGER tell_before ON orders;
DROP TRIGGER tell_after ON orders;
DROP TRIGGER tell_end ON orders;
-- Rows that a shard's trigger leaves out do not count, either way.
SELECT count(*) FROM shardlet.execute('tf_map', $$CREATE FUNCTION tf.odd_only() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN RETURN CASE WHEN new.order_id % 2 = 1 THEN new END; END'$$);
SELECT count(*) FROM shardlet.execute('tf_map',
	'CREATE TRIGGER odd BEFORE INSERT ON tf.orders FOR EACH ROW EXECUTE FUNCTION tf.odd_only()');
COPY orders FROM STDIN;
20	1	a	5
20	2	a	5
\.
\echo :ROW_COUNT
COPY orders FROM STDIN WHERE true;
21	1	a	5
21	2	a	5
\.
\echo :ROW_COUNT
SELECT count(*) FROM shardlet.execute('tf_map', 'DROP TRIGGER odd ON tf.orders');
SELECT * FROM orders ORDER BY 1, 2;
-- A transaction takes it back; a savepoint as well.
BEGIN;
COPY orders FROM STDIN;
30	1	a	5
31	1	a	5
\.
SAVEPOINT a;
COPY orders FROM STDIN;
32	1	a	5
30	1	a	5
\.
ROLLBACK TO a;
SELECT count(*) FROM orders WHERE customer_id >= 30;
ROLLBACK;
SELECT count(*) FROM orders WHERE customer_id >= 30;
-- Another encoding of the client, and of the file.
SET client_encoding = latin1;
COPY orders (customer_id, order_id, status) FROM STDIN;
40	1	ä
\.
RESET client_encoding;
COPY orders (customer_id, order_id, status) FROM STDIN WITH (ENCODING 'utf8');
41	1	ä
\.
-- Two bytes were two characters of Latin 1, and are four bytes now.
SELECT customer_id, octet_length(status), status = 'ä' AS same FROM orders WHERE customer_id IN (40, 41) ORDER BY 1;

-- Wrong input: code and line are those of a plain table.
\set VERBOSITY default
COPY orders FROM STDIN;
50	1	a	5
51	1	a	x
\.
\set VERBOSITY terse
COPY orders FROM STDIN;
50	1	a	-5
\.
COPY orders FROM STDIN;
50	1	a	5
50	1	a	5
\.
COPY orders FROM STDIN;
50	1	a	5
x	1	a	5
\.
COPY orders FROM STDIN;
\N	1	a	5
\.
COPY orders FROM STDIN;
50	1	\344	5
\.
COPY orders FROM STDIN;
50	1	a
\.
COPY orders FROM STDIN;
50	1	a	5	6
\.
COPY orders FROM STDIN WITH (FORMAT csv, HEADER match);
customer_id,order_id,total,status
\.
COPY orders FROM STDIN WITH (FORMAT csv);
50,1,"a,5
\.
COPY orders (nothing) FROM STDIN;
\.
COPY orders (customer_id, customer_id) FROM STDIN;
\.
COPY orders FROM STDIN WITH (FORMAT nothing);
\.
COPY orders FROM '/nonexistent/file';
COPY orders (nothing) TO STDOUT;
SELECT count(*) FROM orders WHERE customer_id >= 50;
-- Privileges are the router's.
CREATE ROLE tf_user;
GRANT USAGE ON SCHEMA tf TO tf_user;
SET ROLE tf_user;
COPY orders FROM STDIN;
\.
COPY orders TO STDOUT;
COPY orders FROM PROGRAM 'true';
COPY orders FROM '/nonexistent/file';
RESET ROLE;
DROP OWNED BY tf_user;
DROP ROLE tf_user;
BEGIN TRANSACTION READ ONLY;
COPY orders FROM STDIN;
\.
ROLLBACK;

-- A key that depends on the clock is the router's.
SELECT shardlet.create_map('tf_times', key_types => '{timestamptz}');
CREATE TABLE times (at timestamptz PRIMARY KEY, n int);
SELECT shardlet.distribute('times', 'tf_times', 'at');
COPY times FROM STDIN (FORMAT csv);
now,1
\.
COPY times FROM STDIN (FORMAT csv);
now,2
\.
COPY times FROM STDIN (FORMAT csv);
now,3
\.
SELECT count(*) FROM shardlet.query('tf_times', 'SELECT at FROM tf.times') AS t(at timestamptz, shardlet_shard name) WHERE shardlet.route('tf_times', at) = shardlet_shard;
DROP TABLE times;
SELECT shardlet.drop_map('tf_times');

-- A shard's own count of lines is not shown.
CREATE TABLE checked (k bigint PRIMARY KEY, v text CHECK (v <> 'bad'), w int DEFAULT 3);
SELECT shardlet.distribute('checked', 'tf_map', 'k');
INSERT INTO checked SELECT i, CASE i WHEN 70 THEN 'bad' END FROM generate_series(1, 100) i;
\set VERBOSITY terse
COPY checked (k, v) FROM STDIN (FORMAT csv);
1,good
2,bad
\.
\set VERBOSITY default
SELECT count(*) FROM checked;
DROP TABLE checked;

SET client_min_messages = warning;
DROP TABLE orders, plain, file, serials;
SELECT count(*) FROM shardlet.execute('tf_map', 'DROP SCHEMA tf CASCADE');
DROP SCHEMA tf CASCADE;
SELECT shardlet.drop_map('tf_map');
