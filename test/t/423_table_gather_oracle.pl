
# The same statements as in 420, with plans that do less on the shards.

use strict;
use warnings;

use OraclePasses;
use Test::More;

my @gather = ('shardlet.ship = off', 'shardlet.scatter = off');

run_passes(
	[ 'no ship', 'simple', change => 'altered', settings => ['shardlet.ship = off'] ],
	[ 'no scatter', 'simple', settings => ['shardlet.scatter = off'] ],
	[ 'gather', 'prepared', settings => [@gather] ],
	[ 'gather, nested loops', 'simple', lists => '^(1|20|21|3[2-4])', settings => [ @gather, map { "enable_$_ = off" } qw(hashjoin mergejoin material memoize hashagg) ] ],
);
done_testing();
