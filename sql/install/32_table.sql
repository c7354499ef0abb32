-- Distributed tables.

-- The options of those that are ordinary tables, since PostgreSQL does not dump these: src/metadata/shell_catalog.c, which
-- knows the columns by number.
CREATE TABLE shardlet.catalog_table (
	schema_name name NOT NULL,
	table_name name NOT NULL,
	options text[] NOT NULL,
	CONSTRAINT catalog_table_pkey PRIMARY KEY (schema_name, table_name)
);
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_table', '');

-- Changes of rows that shards had counted when a table was last analyzed by src/worker/statistics.c.
CREATE TABLE shardlet.catalog_analyzed (
	relid oid NOT NULL,
	shard_id int NOT NULL,
	changes float8 NOT NULL,
	CONSTRAINT catalog_analyzed_pkey PRIMARY KEY (relid, shard_id)
);

-- What the router has created on shards because tables need it, by names that are the shards': src/ddl/object_list.c, which
-- knows the columns by number.  Map 0 stands for placed and reference tables.
CREATE TABLE shardlet.catalog_object (
	kind name NOT NULL,
	object text NOT NULL,
	shard_id int NOT NULL,
	map_id int NOT NULL,
	CONSTRAINT catalog_object_pkey PRIMARY KEY (kind, object, shard_id, map_id)
);
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_object', '');

CREATE FUNCTION shardlet.distribute(
	tbl regclass,
	map name,
	key text DEFAULT NULL,
	drop_foreign_keys bool DEFAULT false,
	local_unique bool DEFAULT false)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_distribute';
COMMENT ON FUNCTION shardlet.distribute(regclass, name, text, bool, bool)
	IS 'spreads a table, with its rows, over the shards of a map';
REVOKE ALL ON FUNCTION shardlet.distribute(regclass, name, text, bool, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.distribute_tables(
	tbls regclass[],
	map name,
	keys text[],
	drop_foreign_keys bool DEFAULT false,
	local_unique bool DEFAULT false)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_distribute_tables';
COMMENT ON FUNCTION shardlet.distribute_tables(regclass[], name, text[], bool, bool)
	IS 'spreads several tables, with their rows and the foreign keys between them, over the shards of a map';
REVOKE ALL ON FUNCTION shardlet.distribute_tables(regclass[], name, text[], bool, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.place(tbl regclass, shard name)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_place';
COMMENT ON FUNCTION shardlet.place(regclass, name) IS 'moves a whole table, with its rows, to one shard';
REVOKE ALL ON FUNCTION shardlet.place(regclass, name) FROM PUBLIC;

CREATE FUNCTION shardlet.undistribute(tbl regclass)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_undistribute';
COMMENT ON FUNCTION shardlet.undistribute(regclass) IS 'brings a table back from the shards, as a plain local one';
REVOKE ALL ON FUNCTION shardlet.undistribute(regclass) FROM PUBLIC;

CREATE FUNCTION shardlet.attach(
	tbl text,
	map name DEFAULT NULL,
	key text DEFAULT NULL,
	shard name DEFAULT NULL,
	verify bool DEFAULT true)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_attach';
COMMENT ON FUNCTION shardlet.attach(text, name, text, name, bool)
	IS 'adopts a table that the shards have: sharded, placed or reference';
REVOKE ALL ON FUNCTION shardlet.attach(text, name, text, name, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.detach(tbl regclass)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_detach';
COMMENT ON FUNCTION shardlet.detach(regclass) IS 'forgets a table, and touches no row on the shards';
REVOKE ALL ON FUNCTION shardlet.detach(regclass) FROM PUBLIC;

CREATE FUNCTION shardlet.take_over()
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_take_over';
COMMENT ON FUNCTION shardlet.take_over()
	IS 'connects the tables of a restored or upgraded router to their shards';
REVOKE ALL ON FUNCTION shardlet.take_over() FROM PUBLIC;
