-- Partitions and triggers of shell tables, on the router and on the shards.
CREATE SCHEMA ddl_partition;
SET search_path = ddl_partition;
SELECT shardlet.create_map('ddl_partition', shards => '{s1, s2}');
CREATE TABLE p(id bigint, d date, v int, primary key(id,d)) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
INSERT INTO p SELECT i, date '2020-06-01'+i, i FROM generate_series(1,100) i;
SELECT shardlet.distribute('p','ddl_partition','id');
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
INSERT INTO p SELECT i, date '2021-06-01'+i, i FROM generate_series(1,100) i;
CREATE INDEX ON p(v);
\d p
\d p2
SELECT count(*) FROM p; SELECT count(*) FROM p2;
INSERT INTO p2 VALUES (1,'2029-01-01',1);
CREATE TABLE p3 (LIKE p INCLUDING ALL);
INSERT INTO p3 VALUES (1,'2023-01-01',1);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM ('2022-01-01') TO ('2024-01-01');
SELECT shardlet.distribute('p3','ddl_partition','id');
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM ('2022-01-01') TO ('2024-01-01');
SELECT count(*) FROM p; SELECT tbl FROM shardlet.tables WHERE map = 'ddl_partition';
INSERT INTO p VALUES (2,'2023-01-01',1);
SELECT count(*) FROM p3;
ALTER TABLE p DETACH PARTITION p1;
SELECT count(*) FROM p; SELECT count(*) FROM p1; SELECT tbl FROM shardlet.tables WHERE map = 'ddl_partition' ORDER BY 1;
ALTER TABLE p DETACH PARTITION p2 CONCURRENTLY;
SELECT count(*) FROM p; SELECT count(*) FROM p2; SELECT tbl FROM shardlet.tables WHERE map = 'ddl_partition' ORDER BY 1;
INSERT INTO p2 VALUES (777,'2021-01-01',1);
BEGIN; CREATE TABLE p4 PARTITION OF p DEFAULT; INSERT INTO p VALUES (5,'2000-01-01',1); ROLLBACK;
CREATE TABLE p4 PARTITION OF p DEFAULT PARTITION BY LIST (d);
CREATE TABLE p41 PARTITION OF p4 FOR VALUES IN ('2000-01-01');
INSERT INTO p VALUES (5,'2000-01-01',1);
SELECT count(*) FROM p41; SELECT tbl FROM shardlet.tables WHERE map = 'ddl_partition' ORDER BY 1;
INSERT INTO p VALUES (5,'2000-01-02',2);
DROP TABLE p41;
SELECT count(*) FROM p;
CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.v := new.v + 100; RETURN new; END $$;
CREATE TRIGGER tt BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION tf();
INSERT INTO p2 VALUES (778,'2021-01-01',1) RETURNING *;
CREATE OR REPLACE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.v := new.v + 200; RETURN new; END $$;
INSERT INTO p2 VALUES (779,'2021-01-01',1) RETURNING *;
ALTER TABLE p2 DISABLE TRIGGER tt;
INSERT INTO p2 VALUES (780,'2021-01-01',1) RETURNING *;
ALTER TABLE p2 ENABLE TRIGGER tt;
ALTER TRIGGER tt ON p2 RENAME TO tu;
\d p2
DROP TRIGGER tu ON p2;
INSERT INTO p2 VALUES (781,'2021-01-01',1) RETURNING *;
TRUNCATE p, p2;
SELECT count(*) FROM p; SELECT count(*) FROM p2;
COPY p FROM STDIN;
1	2023-01-01	1
2	2023-01-01	2
\.
COPY p(id,d,v) FROM STDIN WHERE v > 5;
3	2023-01-01	3
4	2023-01-01	6
\.
COPY p3 FROM STDIN (FORMAT csv);
7,2023-01-01,1
\.
SELECT * FROM p ORDER BY 1;
ANALYZE p;
SELECT relname, reltuples FROM pg_class WHERE relname IN ('p','p3') ORDER BY 1;
DROP TABLE p;
DROP TABLE p1, p2;
SELECT * FROM shardlet.query('ddl_partition', 'select relname::text from pg_class where relnamespace = ''ddl_partition''::regnamespace', per_shard=>true) q(i text) ORDER BY 1;
SELECT count(*) FROM pg_foreign_table f JOIN pg_class c ON c.oid = ftrelid WHERE relnamespace = 'ddl_partition'::regnamespace;
SET client_min_messages = warning;
DROP SCHEMA ddl_partition CASCADE;
SELECT count(*) FROM shardlet.execute('ddl_partition', 'DROP SCHEMA ddl_partition CASCADE');
SELECT shardlet.drop_map('ddl_partition');
