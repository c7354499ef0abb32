-- Tables of maps and shardlets.  src/metadata/map_catalog.c knows their columns by
-- number.  Rows are written by the functions below only.

CREATE TABLE shardlet.catalog_map (
	map_id int NOT NULL,
	map name NOT NULL,
	kind text NOT NULL,
	key_types regtype[] NOT NULL,
	via text,
	version bigint NOT NULL,
	CONSTRAINT catalog_map_pkey PRIMARY KEY (map_id)
);
CREATE UNIQUE INDEX catalog_map_name ON shardlet.catalog_map (map);

-- A shard is behind if it was offline and has missed a change of the map.  "version" is that of
-- the last change of which it was told: the shard has the same number.
CREATE TABLE shardlet.catalog_map_shard (
	map_id int NOT NULL,
	shard_id int NOT NULL,
	behind bool NOT NULL,
	version bigint NOT NULL,
	CONSTRAINT catalog_map_shard_pkey PRIMARY KEY (map_id, shard_id)
);

-- Both a value range and a token range, so that kinds with two levels can come
-- without a migration.  High ends are not included; NULL is unbounded.  For a
-- list, low holds the key and low_token its token, by which it is found.
CREATE TABLE shardlet.catalog_shardlet (
	shardlet bigint NOT NULL,
	map_id int NOT NULL,
	shard_id int NOT NULL,
	low_token bigint,
	high_token bigint,
	low text[],
	high text[],
	is_default bool NOT NULL,
	state text NOT NULL,
	pinned bool NOT NULL,
	version bigint NOT NULL,
	CONSTRAINT catalog_shardlet_pkey PRIMARY KEY (shardlet)
);
CREATE INDEX catalog_shardlet_token ON shardlet.catalog_shardlet (map_id, low_token);
CREATE INDEX catalog_shardlet_shard ON shardlet.catalog_shardlet (shard_id, map_id);

-- The router's secret: one row, made with the first change of a map.  src/metadata/shard_secret.c says what for.  There are no
-- privileges on it.
CREATE TABLE shardlet.catalog_secret (
	secret text NOT NULL
);

-- Which router this is: one row, made by the first add_shard().  It is valid where the
-- system identifier and the OID of the database are this one's: src/metadata/router_identity.c.
CREATE TABLE shardlet.catalog_router (
	router_id text NOT NULL,
	system_identifier bigint NOT NULL,
	database_oid oid NOT NULL,
	epoch bigint NOT NULL
);

-- Maps that were dropped: a shard that knows one missed that, and not the router.
CREATE TABLE shardlet.catalog_dropped_map (
	map_id int NOT NULL,
	CONSTRAINT catalog_dropped_map_pkey PRIMARY KEY (map_id)
);

CREATE SEQUENCE shardlet.map_id_seq AS int;
CREATE SEQUENCE shardlet.shard_id_seq AS int;
CREATE SEQUENCE shardlet.shardlet_id_seq;

SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_map', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_map_shard', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_shardlet', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_secret', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_router', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_dropped_map', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.map_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.shard_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.shardlet_id_seq', '');
