
# Sharded, reference and placed tables answer like plain ones: every statement of
# test/oracle/*.sql gives the same on both, with the plans that are chosen.

use strict;
use warnings;

use OraclePasses;
use Test::More;

run_passes(
	[ 'as distributed', 'simple' ],
	[ 'other attribute numbers, prepared', 'prepared', change => 'altered' ],
	[ 'read in parts', 'portal', settings => ['shardlet.consistent_reads = on'] ],
	[ 'generic plans', 'prepared', lists => '^(11|13|2[4-6]|38|41)', settings => ['plan_cache_mode = force_generic_plan'] ],
);
done_testing();
