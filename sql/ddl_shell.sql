-- DDL on shell tables: the router has what the shards have, under the same names.
CREATE SCHEMA ddl_shell;
SET search_path = ddl_shell;
SELECT shardlet.create_map('ddl_shell', shards => '{s1, s2, s3}');
CREATE TABLE r(rid int primary key, n text);
INSERT INTO r VALUES (1,'a'),(2,'b');
SELECT shardlet.make_reference('r');
CREATE TABLE c(id bigint primary key, name text not null, v numeric default 1, check (v > 0));
CREATE TABLE o(id bigint references c(id), oid bigint, rid int references r, primary key(id,oid));
INSERT INTO c SELECT i, 'n'||i, i FROM generate_series(1,100) i;
INSERT INTO o SELECT i, i, 1 FROM generate_series(1,100) i;
SELECT shardlet.distribute_tables('{c,o}','ddl_shell','{id}');
\d o
INSERT INTO o VALUES (1000,1,1);
INSERT INTO o VALUES (1,1000,7);
DELETE FROM r WHERE rid=1;
DELETE FROM r WHERE rid=2;
DELETE FROM c WHERE id=1;
EXPLAIN (COSTS OFF) UPDATE o SET rid=1 WHERE id=4;
CREATE INDEX ON c(name);
CREATE INDEX CONCURRENTLY ON c((lower(name)));
CREATE UNIQUE INDEX ON c(id,name);
CREATE UNIQUE INDEX ON c(name);
ALTER TABLE c ADD COLUMN z int DEFAULT 5, ADD UNIQUE (id, z), ADD CONSTRAINT zz CHECK (z > 0);
ALTER TABLE c ALTER COLUMN z TYPE bigint USING z*2;
ALTER TABLE c ADD COLUMN s serial;
SELECT min(z), count(distinct s) FROM c;
ALTER TABLE c RENAME COLUMN id TO cid;
SELECT * FROM c WHERE cid=3;
ALTER TABLE c RENAME TO cc;
SELECT * FROM cc WHERE cid=3;
ALTER TABLE o ADD COLUMN w int REFERENCES r(rid);
ALTER TABLE o ADD FOREIGN KEY (rid) REFERENCES r(rid) ON DELETE CASCADE;
\d cc
SELECT i, count(*) FROM shardlet.query('ddl_shell', 'select indexname::text from pg_indexes where schemaname = ''ddl_shell'' AND tablename = ''cc''', per_shard=>true) q(i text) GROUP BY 1 ORDER BY 1;
DROP INDEX cc_pkey;
DROP INDEX c_name_idx;
ALTER TABLE cc DROP CONSTRAINT zz;
ALTER TABLE cc DROP COLUMN z;
BEGIN; ALTER TABLE cc ADD COLUMN q int; CREATE INDEX ON cc(q); ROLLBACK;
COMMENT ON TABLE cc IS 'hello';
COMMENT ON COLUMN cc.name IS 'hello';
CLUSTER cc USING c_pkey;
REINDEX TABLE cc;
VACUUM ANALYZE cc;
\d+ cc
ALTER INDEX c_id_name_idx RENAME TO foo;
DROP TABLE o;
SELECT i, count(*) FROM shardlet.query('ddl_shell', 'select indexname::text from pg_indexes where schemaname = ''ddl_shell'' AND tablename = ''cc''', per_shard=>true) q(i text) GROUP BY 1 ORDER BY 1;
SELECT shardlet.undistribute('cc');
SELECT count(*), min(name) FROM cc;
\d cc
SELECT i, count(*) FROM shardlet.query('ddl_shell', 'select count(*) from pg_class where relname in (''cc'', ''o'') AND relnamespace = ''ddl_shell''::regnamespace', per_shard=>true) q(i bigint) GROUP BY 1 ORDER BY 1;
SET client_min_messages = warning;
SELECT shardlet.undistribute('r');
DROP SCHEMA ddl_shell CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA ddl_shell CASCADE');
SELECT shardlet.drop_map('ddl_shell');
