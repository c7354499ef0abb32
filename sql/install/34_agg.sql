-- Aggregates in two steps: shards compute states, the router puts them together.

-- The state of an aggregate as a value that can travel.  PostgreSQL has no syntax for that, so each of these has the
-- transition function of some aggregates, and what writes their state as its final function, or no final function where the
-- state is a value already.  The functions are the same in PostgreSQL 15 to 18, and so is what they write.

CREATE AGGREGATE shardlet.avg_state(bigint) (
	SFUNC = pg_catalog.int8_avg_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.int8_avg_serialize,
	COMBINEFUNC = pg_catalog.int8_avg_combine,
	SERIALFUNC = pg_catalog.int8_avg_serialize,
	DESERIALFUNC = pg_catalog.int8_avg_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.avg_state(bigint) IS 'state of sum(bigint), avg(bigint)';

CREATE AGGREGATE shardlet.avg_state(numeric) (
	SFUNC = pg_catalog.numeric_avg_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_avg_serialize,
	COMBINEFUNC = pg_catalog.numeric_avg_combine,
	SERIALFUNC = pg_catalog.numeric_avg_serialize,
	DESERIALFUNC = pg_catalog.numeric_avg_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.avg_state(numeric) IS 'state of sum(numeric), avg(numeric)';

CREATE AGGREGATE shardlet.var_state(smallint) (
	SFUNC = pg_catalog.int2_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_poly_serialize,
	COMBINEFUNC = pg_catalog.numeric_poly_combine,
	SERIALFUNC = pg_catalog.numeric_poly_serialize,
	DESERIALFUNC = pg_catalog.numeric_poly_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(smallint) IS 'state of variances and deviations of smallint';

CREATE AGGREGATE shardlet.var_state(integer) (
	SFUNC = pg_catalog.int4_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_poly_serialize,
	COMBINEFUNC = pg_catalog.numeric_poly_combine,
	SERIALFUNC = pg_catalog.numeric_poly_serialize,
	DESERIALFUNC = pg_catalog.numeric_poly_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(integer) IS 'state of variances and deviations of integer';

CREATE AGGREGATE shardlet.var_state(bigint) (
	SFUNC = pg_catalog.int8_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_serialize,
	COMBINEFUNC = pg_catalog.numeric_combine,
	SERIALFUNC = pg_catalog.numeric_serialize,
	DESERIALFUNC = pg_catalog.numeric_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(bigint) IS 'state of variances and deviations of bigint';

CREATE AGGREGATE shardlet.var_state(numeric) (
	SFUNC = pg_catalog.numeric_accum,
	STYPE = internal,
	FINALFUNC = pg_catalog.numeric_serialize,
	COMBINEFUNC = pg_catalog.numeric_combine,
	SERIALFUNC = pg_catalog.numeric_serialize,
	DESERIALFUNC = pg_catalog.numeric_deserialize,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(numeric) IS 'state of variances and deviations of numeric';

CREATE AGGREGATE shardlet.var_state(real) (
	SFUNC = pg_catalog.float4_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0}',
	COMBINEFUNC = pg_catalog.float8_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(real) IS 'state of avg(real), of variances and deviations of real';

CREATE AGGREGATE shardlet.var_state(double precision) (
	SFUNC = pg_catalog.float8_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0}',
	COMBINEFUNC = pg_catalog.float8_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.var_state(double precision)
	IS 'state of avg(double precision), of variances and deviations of double precision';

CREATE AGGREGATE shardlet.regr_state(double precision, double precision) (
	SFUNC = pg_catalog.float8_regr_accum,
	STYPE = double precision[],
	INITCOND = '{0,0,0,0,0,0}',
	COMBINEFUNC = pg_catalog.float8_regr_combine,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.regr_state(double precision, double precision)
	IS 'state of corr, covar_pop, covar_samp and regr_...';

-- Sums whose state is the sum.  The router uses them in place of PostgreSQL's own where a state cannot travel: a shard without
-- the extension can compute a sum.

CREATE AGGREGATE shardlet.plain_sum(bigint) (
	SFUNC = pg_catalog.int8_sum,
	STYPE = numeric,
	COMBINEFUNC = pg_catalog.numeric_add,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.plain_sum(bigint) IS 'sum(bigint) with the sum itself as its state';

CREATE AGGREGATE shardlet.plain_sum(numeric) (
	SFUNC = pg_catalog.numeric_add,
	STYPE = numeric,
	COMBINEFUNC = pg_catalog.numeric_add,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.plain_sum(numeric) IS 'sum(numeric) with the sum itself as its state';

CREATE AGGREGATE shardlet.plain_sum(interval) (
	SFUNC = pg_catalog.interval_pl,
	STYPE = interval,
	COMBINEFUNC = pg_catalog.interval_pl,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.plain_sum(interval) IS 'sum(interval) with the sum itself as its state';

-- In place of count(DISTINCT key): a key is on one shard, which counts it once.
CREATE AGGREGATE shardlet.count_keys("any") (
	SFUNC = pg_catalog.int8inc_any,
	STYPE = bigint,
	INITCOND = '0',
	COMBINEFUNC = pg_catalog.int8pl,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.count_keys("any") IS 'adds up what shards have counted';

-- The state of any other aggregate.  The first argument is a NULL of the state's type, bytea for "internal".
CREATE FUNCTION shardlet.state_step(internal, anyelement, regprocedure, VARIADIC "any")
RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_state_step';
COMMENT ON FUNCTION shardlet.state_step(internal, anyelement, regprocedure, "any") IS 'of the aggregate state_of';

CREATE FUNCTION shardlet.state_end(internal, anyelement, regprocedure, VARIADIC "any")
RETURNS anyelement
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_state_end';
COMMENT ON FUNCTION shardlet.state_end(internal, anyelement, regprocedure, "any") IS 'of the aggregate state_of';

CREATE AGGREGATE shardlet.state_of(anyelement, regprocedure, VARIADIC "any") (
	SFUNC = shardlet.state_step,
	STYPE = internal,
	FINALFUNC = shardlet.state_end,
	FINALFUNC_EXTRA,
	PARALLEL = SAFE);
COMMENT ON AGGREGATE shardlet.state_of(anyelement, regprocedure, "any") IS 'state of an aggregate';
