
# A SELECT whose function writes is never done twice: if the connection is cut
# while it runs, it is done not at all; if not, once.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, proxy => 1);
$c->sql(q{SELECT shardlet.create_map('m')});
$c->sql(q{SELECT * FROM shardlet.execute('m', 'CREATE TABLE log (a serial)')});
$c->sql(q{SELECT * FROM shardlet.execute('m', 'CREATE FUNCTION pay() RETURNS text LANGUAGE sql AS $f$ INSERT INTO log DEFAULT VALUES RETURNING ''paid'' $f$')});
my $pay = q{SELECT * FROM shardlet.query('m', 'SELECT pay()') AS q(a text)};
my $log = 'SELECT count(*) FROM log';

# With a connection that is open already, the answer is cut off.
my $warm = q{SELECT FROM shardlet.query('m', 'SELECT 1') AS q(a int);};
$c->proxy(2)->rule(cut => 'server', type => 'D', text => 'paid');
my (undef, undef, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\n$warm\n$pay");
like($stderr, qr/SL004/, 'the answer is lost');
$c->proxy(2)->normal;
is($c->shard_sql($_, $log), 0, "shard $_ has done nothing") for 1, 2;

is($c->sql($pay), "paid\npaid", 'and now');
is($c->shard_sql($_, $log), 1, "shard $_ has done it once") for 1, 2;

$c->destroy;
done_testing();
