-- Balancing: which shardlets go where, and having them go.

CREATE FUNCTION shardlet.rebalance_plan(
	map name,
	"by" text DEFAULT 'size',
	max_moves int DEFAULT NULL,
	OUT step int,
	OUT action text,
	OUT shardlet bigint,
	OUT from_shard name,
	OUT to_shard name,
	OUT bytes bigint,
	OUT seconds double precision,
	OUT reason text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_rebalance_plan';
COMMENT ON FUNCTION shardlet.rebalance_plan(name, text, int)
	IS 'moves that would give each shard its share of a map, in the order in which they help most';
REVOKE ALL ON FUNCTION shardlet.rebalance_plan(name, text, int) FROM PUBLIC;

CREATE PROCEDURE shardlet.rebalance(
	map name,
	"by" text DEFAULT 'size',
	max_moves int DEFAULT NULL,
	parallel int DEFAULT 1,
	wait bool DEFAULT true,
	mode text DEFAULT 'online')
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_rebalance';
COMMENT ON PROCEDURE shardlet.rebalance(name, text, int, int, bool, text)
	IS 'moves shardlets until each shard has its share of a map';
REVOKE ALL ON PROCEDURE shardlet.rebalance(name, text, int, int, bool, text) FROM PUBLIC;

-- The planner alone, for tests.
CREATE FUNCTION shardlet_internal.balance_numbers(
	weights double precision[],
	groups int[],
	sizes double precision[],
	shards int[],
	fixed bool[],
	max_moves int DEFAULT NULL,
	OUT piece int,
	OUT from_shard int,
	OUT to_shard int)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_balance_numbers';
COMMENT ON FUNCTION shardlet_internal.balance_numbers(double precision[], int[], double precision[], int[], bool[], int)
	IS 'the planner of rebalance() with numbers of the caller';
REVOKE ALL ON FUNCTION shardlet_internal.balance_numbers(double precision[], int[], double precision[], int[], bool[], int) FROM PUBLIC;
