-- Aggregates in two steps: shards compute states, the router combines them.

-- The state of an aggregate as a value that can be sent.  PostgreSQL has no syntax for that, so each of these has the
-- transition function of some aggregates, and what serializes their state as its final function, or no final function where the
-- state is a value already.  The functions are the same in PostgreSQL 15 to 18, and so is what they write.  src/deparse/aggregate_state_check.c
-- checks the bytes on the router: no other deserialize function gets bytes of a shard.

CREATE AGGREGATE shardlet_internal.avg_state(bigint) (
	SFUNC = pg_catalog.int8_avg_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.int8_avg_serialize,
	COMBINEFUNC = pg_catalog.int8_avg_combine,
	SERIALFUNC = pg_catalog.int8_avg_serialize,
	DESERIALFUNC = pg_catalog.int8_avg_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.avg_state(bigint) IS 'state of sum(bigint), avg(bigint)';

CREATE AGGREGATE shardlet_internal.avg_state(numeric) (
	SFUNC = pg_catalog.numeric_avg_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_avg_serialize,
	COMBINEFUNC = pg_catalog.numeric_avg_combine,
	SERIALFUNC = pg_catalog.numeric_avg_serialize,
	DESERIALFUNC = pg_catalog.numeric_avg_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.avg_state(numeric) IS 'state of sum(numeric), avg(numeric)';

CREATE AGGREGATE shardlet_internal.var_state(smallint) (
	SFUNC = pg_catalog.int2_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_poly_serialize,
	COMBINEFUNC = pg_catalog.numeric_poly_combine,
	SERIALFUNC = pg_catalog.numeric_poly_serialize,
	DESERIALFUNC = pg_catalog.numeric_poly_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(smallint) IS 'state of variances and deviations of smallint';

CREATE AGGREGATE shardlet_internal.var_state(integer) (
	SFUNC = pg_catalog.int4_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_poly_serialize,
	COMBINEFUNC = pg_catalog.numeric_poly_combine,
	SERIALFUNC = pg_catalog.numeric_poly_serialize,
	DESERIALFUNC = pg_catalog.numeric_poly_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(integer) IS 'state of variances and deviations of integer';

CREATE AGGREGATE shardlet_internal.var_state(bigint) (
	SFUNC = pg_catalog.int8_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_serialize,
	COMBINEFUNC = pg_catalog.numeric_combine,
	SERIALFUNC = pg_catalog.numeric_serialize,
	DESERIALFUNC = pg_catalog.numeric_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(bigint) IS 'state of variances and deviations of bigint';

CREATE AGGREGATE shardlet_internal.var_state(numeric) (
	SFUNC = pg_catalog.numeric_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_serialize,
	COMBINEFUNC = pg_catalog.numeric_combine,
	SERIALFUNC = pg_catalog.numeric_serialize,
	DESERIALFUNC = pg_catalog.numeric_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(numeric) IS 'state of variances and deviations of numeric';

CREATE AGGREGATE shardlet_internal.var_state(real) (
	SFUNC = pg_catalog.float4_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0}',
	COMBINEFUNC = pg_catalog.float8_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(real) IS 'state of avg(real), of variances and deviations of real';

CREATE AGGREGATE shardlet_internal.var_state(double precision) (
	SFUNC = pg_catalog.float8_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0}',
	COMBINEFUNC = pg_catalog.float8_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.var_state(double precision)
	IS 'state of avg(double precision), of variances and deviations of double precision';

CREATE AGGREGATE shardlet_internal.regr_state(double precision, double precision) (
	SFUNC = pg_catalog.float8_regr_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0,0,0,0}',
	COMBINEFUNC = pg_catalog.float8_regr_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.regr_state(double precision, double precision)
	IS 'state of corr, covar_pop, covar_samp and regr_...';

-- Aggregates of the router's plans.  Each has a transition function of its own: PostgreSQL's planner lets two aggregates share
-- one state if their transition function, initial value and arguments are the same, and the states that shards send for these are
-- not those of the built-in aggregate with that function.

CREATE FUNCTION shardlet_internal.plain_sum_step(numeric, bigint)
RETURNS numeric
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_plain_sum_int8';
COMMENT ON FUNCTION shardlet_internal.plain_sum_step(numeric, bigint) IS 'of the aggregate plain_sum';
REVOKE ALL ON FUNCTION shardlet_internal.plain_sum_step(numeric, bigint) FROM PUBLIC;

CREATE FUNCTION shardlet_internal.plain_sum_step(numeric, numeric)
RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_plain_sum_numeric';
COMMENT ON FUNCTION shardlet_internal.plain_sum_step(numeric, numeric) IS 'of the aggregate plain_sum';
REVOKE ALL ON FUNCTION shardlet_internal.plain_sum_step(numeric, numeric) FROM PUBLIC;

CREATE FUNCTION shardlet_internal.plain_sum_step(interval, interval)
RETURNS interval
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_plain_sum_interval';
COMMENT ON FUNCTION shardlet_internal.plain_sum_step(interval, interval) IS 'of the aggregate plain_sum';
REVOKE ALL ON FUNCTION shardlet_internal.plain_sum_step(interval, interval) FROM PUBLIC;

CREATE FUNCTION shardlet_internal.count_keys_step(bigint, "any")
RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_count_keys';
COMMENT ON FUNCTION shardlet_internal.count_keys_step(bigint, "any") IS 'of the aggregate count_keys';
REVOKE ALL ON FUNCTION shardlet_internal.count_keys_step(bigint, "any") FROM PUBLIC;

-- Sums whose state is the sum.  The router uses them in place of PostgreSQL's own where a shard cannot send a state: a shard
-- without the extension can compute a sum.

CREATE AGGREGATE shardlet_internal.plain_sum(bigint) (
	SFUNC = shardlet_internal.plain_sum_step,
	STYPE = numeric,
	COMBINEFUNC = pg_catalog.numeric_add,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.plain_sum(bigint) IS 'sum(bigint) with the sum itself as its state';

CREATE AGGREGATE shardlet_internal.plain_sum(numeric) (
	SFUNC = shardlet_internal.plain_sum_step,
	STYPE = numeric,
	COMBINEFUNC = pg_catalog.numeric_add,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.plain_sum(numeric) IS 'sum(numeric) with the sum itself as its state';

CREATE AGGREGATE shardlet_internal.plain_sum(interval) (
	SFUNC = shardlet_internal.plain_sum_step,
	STYPE = interval,
	COMBINEFUNC = pg_catalog.interval_pl,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.plain_sum(interval) IS 'sum(interval) with the sum itself as its state';

-- In place of count(DISTINCT key): a key is on one shard, which counts it once.
CREATE AGGREGATE shardlet_internal.count_keys("any") (
	SFUNC = shardlet_internal.count_keys_step,
	STYPE = bigint,
	INITCOND = '0',
	COMBINEFUNC = pg_catalog.int8pl,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.count_keys("any") IS 'adds up what shards have counted';

-- The state of any other aggregate whose state is a value.  The first argument is a NULL of the state's type.
CREATE FUNCTION shardlet_internal.state_step(internal, anyelement, regprocedure, VARIADIC "any")
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_state_step';
COMMENT ON FUNCTION shardlet_internal.state_step(internal, anyelement, regprocedure, "any") IS 'of the aggregate state_of';
REVOKE ALL ON FUNCTION shardlet_internal.state_step(internal, anyelement, regprocedure, "any") FROM PUBLIC;

CREATE FUNCTION shardlet_internal.state_end(internal, anyelement, regprocedure, VARIADIC "any")
RETURNS anyelement
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_state_end';
COMMENT ON FUNCTION shardlet_internal.state_end(internal, anyelement, regprocedure, "any") IS 'of the aggregate state_of';
REVOKE ALL ON FUNCTION shardlet_internal.state_end(internal, anyelement, regprocedure, "any") FROM PUBLIC;

CREATE AGGREGATE shardlet_internal.state_of(anyelement, regprocedure, VARIADIC "any") (
	SFUNC = shardlet_internal.state_step,
	STYPE = internal,
	FINALFUNC = shardlet_internal.state_end,
	FINALFUNC_EXTRA,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet_internal.state_of(anyelement, regprocedure, "any") IS 'state of an aggregate';
