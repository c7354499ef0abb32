-- ORDER BY of a subquery, a CTE or a view: shards' rows are merged by it where it can be seen, and it is dropped elsewhere.
CREATE SCHEMA subquery_order;
SET search_path = subquery_order, public;
SELECT shardlet.create_map('so', shards => '{s1,s2,s3}');
CREATE TABLE t (id int PRIMARY KEY, g int, v int);
CREATE TABLE u (id int, n int, w int, PRIMARY KEY (id, n));
INSERT INTO t SELECT i, i % 4, i * 7919 % 101 FROM generate_series(1, 40) i;
INSERT INTO u SELECT i, j, (i * 31 + j * 17) % 97 FROM generate_series(1, 20) i, generate_series(1, 2) j;
SELECT shardlet.distribute('t', 'so', 'id'), shardlet.distribute('u', 'so', 'id');
CREATE VIEW sorted AS SELECT id, g FROM t ORDER BY v;
CREATE VIEW joined AS SELECT t.id, n, w FROM t JOIN u USING (id) ORDER BY w, t.id, n;
CREATE VIEW outer_sorted AS SELECT id FROM sorted WHERE g > 0;
-- Without what differs between versions of PostgreSQL.
CREATE FUNCTION show_plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line !~ '^ *(Output|Window): ' THEN
			RETURN NEXT regexp_replace(line, '\mr\d+\M', 'r', 'g');
		END IF;
	END LOOP;
END
$$;
-- Rows, and some of them: the query around is sorted, by a column that it does not return.
SELECT * FROM show_plan('SELECT id FROM (SELECT id FROM t ORDER BY v) s LIMIT 3') AS plan;
SELECT id FROM (SELECT id FROM t ORDER BY v) s LIMIT 3;
SELECT * FROM show_plan('SELECT * FROM sorted WHERE g = 1') AS plan;
SELECT * FROM sorted WHERE g = 1;
SELECT * FROM show_plan('SELECT id FROM outer_sorted OFFSET 2 LIMIT 3') AS plan;
SELECT id FROM outer_sorted OFFSET 2 LIMIT 3;
SELECT * FROM show_plan('WITH s AS MATERIALIZED (SELECT id FROM t ORDER BY v DESC) SELECT id FROM s LIMIT 3') AS plan;
WITH s AS MATERIALIZED (SELECT id FROM t ORDER BY v DESC) SELECT id FROM s LIMIT 3;
SELECT * FROM show_plan('SELECT * FROM (SELECT id, v FROM t UNION ALL SELECT id, w FROM u ORDER BY 2, 1) s LIMIT 3') AS plan;
SELECT * FROM (SELECT id, v FROM t UNION ALL SELECT id, w FROM u ORDER BY 2, 1) s LIMIT 3;
SELECT DISTINCT ON (g) g, id FROM (SELECT g, id FROM t ORDER BY g, v) s;
-- Aggregates and windows see rows as they come.
SELECT * FROM show_plan('SELECT array_agg(id) FROM sorted') AS plan;
SELECT array_agg(id) FROM sorted;
SELECT * FROM show_plan('SELECT array_agg(n) FROM joined') AS plan;
SELECT string_agg(w::text, ' ') FROM joined;
SELECT * FROM show_plan('SELECT row_number() OVER (), id FROM sorted LIMIT 3') AS plan;
SELECT row_number() OVER (), id FROM sorted LIMIT 3;
SELECT g, array_agg(id) FROM sorted GROUP BY g ORDER BY g;
-- A row as one value keeps its columns, a CTE that is used twice its order.
SELECT row_to_json(s) FROM (SELECT id FROM t ORDER BY v) s LIMIT 2;
WITH s AS (SELECT id FROM t ORDER BY v) SELECT (SELECT id FROM s LIMIT 1), array_agg(id) FROM s;
-- On one shard PostgreSQL keeps the order, and can use the condition for it.
SELECT * FROM show_plan('SELECT id, (SELECT array_agg(n) FROM (SELECT * FROM u ORDER BY w) s WHERE s.id = t.id) FROM t ORDER BY id LIMIT 2') AS plan;
SELECT * FROM show_plan('SELECT id FROM (SELECT id, v FROM t WHERE id = 7 ORDER BY v) s LIMIT 3') AS plan;
-- Nothing depends on it.
SELECT * FROM show_plan('SELECT count(*), sum(id) FROM sorted') AS plan;
SELECT * FROM show_plan('SELECT count(*) FROM outer_sorted') AS plan;
SELECT * FROM show_plan('SELECT count(*) FROM joined') AS plan;
SELECT * FROM show_plan('SELECT s.id FROM (SELECT id FROM t ORDER BY v) s JOIN u USING (id)') AS plan;
SELECT * FROM show_plan('SELECT id FROM t WHERE id IN (SELECT id FROM u ORDER BY w)') AS plan;
SELECT * FROM show_plan('SELECT max(id) FROM (SELECT DISTINCT ON (id) id, n FROM u ORDER BY id, w) s') AS plan;
SELECT count(*), sum(id) FROM sorted;
-- A sequence gives its values in this order.
CREATE SEQUENCE numbers;
SELECT n, id FROM (SELECT nextval('numbers') AS n, id FROM t ORDER BY v) s LIMIT 3;
CREATE TABLE numbered (n serial, id int);
INSERT INTO numbered (id) SELECT id FROM sorted;
SELECT array_agg(id ORDER BY n) FROM numbered;

SET client_min_messages = warning;
DROP SCHEMA subquery_order CASCADE;
SELECT count(*) FROM shardlet.execute('so', 'DROP SCHEMA subquery_order CASCADE');
SELECT shardlet.drop_map('so');
