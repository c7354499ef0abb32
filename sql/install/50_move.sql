-- Moves of shardlets from shard to shard.

-- Orphaned rows, which a shard has and does not own: copied ones before the switch of a
-- move, old ones after it.  src/metadata/orphaned_rows.c knows the columns by number.
CREATE TABLE shardlet.catalog_stray (
	move bigint NOT NULL,
	map_id int NOT NULL,
	shard_id int NOT NULL,
	low_token bigint,
	high_token bigint,
	low text[],
	high text[],
	is_default bool NOT NULL,
	state text NOT NULL,
	after_switch bool NOT NULL,
	CONSTRAINT catalog_stray_pkey PRIMARY KEY (map_id, move)
);

-- One row for each move; src/move/move_catalog.c knows the columns by number.
-- "phase" is the step that is being done, written before it is begun.  "name" is
-- that of everything that an online move makes on shards.  "parallel" is how many
-- of a drain_shard run at a time; 0 if the move is none of these.
CREATE TABLE shardlet.catalog_move (
	move bigint NOT NULL,
	map_id int NOT NULL,
	shardlet bigint NOT NULL,
	from_shard int NOT NULL,
	to_shard int NOT NULL,
	mode text NOT NULL,
	phase text NOT NULL,
	state_before text NOT NULL,
	user_id oid NOT NULL,
	is_open bool NOT NULL,
	is_cancelled bool NOT NULL,
	table_count int NOT NULL,
	tables_done int NOT NULL,
	rows_done bigint NOT NULL,
	rows_estimated bigint NOT NULL,
	bytes_done bigint NOT NULL,
	bytes_estimated bigint NOT NULL,
	lag bigint,
	attempts int NOT NULL,
	started timestamptz NOT NULL,
	changed timestamptz NOT NULL,
	last_error text,
	relations oid[],
	name text NOT NULL,
	parallel int NOT NULL,
	CONSTRAINT catalog_move_pkey PRIMARY KEY (move)
);
CREATE INDEX catalog_move_shardlet ON shardlet.catalog_move (shardlet);
CREATE SEQUENCE shardlet.move_id_seq;

-- An error of a shard can have values of rows in it.
CREATE VIEW shardlet.moves AS
SELECT
	v.move,
	m.map,
	v.shardlet,
	f.shard AS from_shard,
	t.shard AS to_shard,
	v.mode,
	v.phase,
	v.is_open AS open,
	v.table_count AS tables,
	v.tables_done,
	v.rows_done,
	v.rows_estimated,
	v.bytes_done,
	v.bytes_estimated,
	v.lag,
	v.attempts,
	v.started,
	v.changed,
	CASE WHEN pg_catalog.pg_has_role(v.user_id, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
		THEN v.last_error END AS last_error
FROM shardlet.catalog_move v
	LEFT JOIN shardlet.catalog_map m USING (map_id)
	LEFT JOIN shardlet.shards f ON f.id = v.from_shard
	LEFT JOIN shardlet.shards t ON t.id = v.to_shard;
COMMENT ON VIEW shardlet.moves IS 'moves of shardlets, those under way and those that are over';
GRANT SELECT ON shardlet.moves TO PUBLIC;

CREATE PROCEDURE shardlet.move_shardlet(
	shardlet bigint,
	to_shard name,
	mode text DEFAULT 'online',
	wait bool DEFAULT true)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_shardlet';
COMMENT ON PROCEDURE shardlet.move_shardlet(bigint, name, text, bool)
	IS 'moves a shardlet with its rows to another shard';
REVOKE ALL ON PROCEDURE shardlet.move_shardlet(bigint, name, text, bool) FROM PUBLIC;

CREATE PROCEDURE shardlet.resume_move(move bigint)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_resume_move';
COMMENT ON PROCEDURE shardlet.resume_move(bigint)
	IS 'goes on with a move, or begins one anew that was undone, and waits for it';
REVOKE ALL ON PROCEDURE shardlet.resume_move(bigint) FROM PUBLIC;

CREATE PROCEDURE shardlet.cancel_move(move bigint)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_cancel_move';
COMMENT ON PROCEDURE shardlet.cancel_move(bigint)
	IS 'undoes a move that has not changed the owner yet, and waits for that';
REVOKE ALL ON PROCEDURE shardlet.cancel_move(bigint) FROM PUBLIC;

CREATE PROCEDURE shardlet.drain_shard(
	shard name,
	wait bool DEFAULT true,
	mode text DEFAULT 'online',
	parallel int DEFAULT 1)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_drain_shard';
COMMENT ON PROCEDURE shardlet.drain_shard(name, bool, text, int)
	IS 'moves all shardlets of a shard to other shards of their maps';
REVOKE ALL ON PROCEDURE shardlet.drain_shard(name, bool, text, int) FROM PUBLIC;

CREATE PROCEDURE shardlet.move_shardlets(
	shardlets bigint[],
	to_shard name,
	mode text DEFAULT 'online',
	wait bool DEFAULT true)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_shardlets';
COMMENT ON PROCEDURE shardlet.move_shardlets(bigint[], name, text, bool)
	IS 'moves shardlets with their rows to another shard, one after the other';
REVOKE ALL ON PROCEDURE shardlet.move_shardlets(bigint[], name, text, bool) FROM PUBLIC;

CREATE PROCEDURE shardlet.move_table(tbl regclass, shard name)
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_table';
COMMENT ON PROCEDURE shardlet.move_table(regclass, name)
	IS 'moves a placed table with its rows to another shard, in one transaction';
REVOKE ALL ON PROCEDURE shardlet.move_table(regclass, name) FROM PUBLIC;
