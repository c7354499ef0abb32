
# Statements of tables send no more commands than they need.
#
# A write that is a whole transaction goes to its shard without BEGIN and COMMIT: the
# statement's text says that it writes.  Whatever keeps that from working costs two
# more commands, and nothing else changes.  A read in a transaction goes without a
# savepoint if it is what the client sent.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
my $shard = $c->shard(1);
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', key_types => '{bigint}');
	SELECT shardlet.assign_key('m', 's1', 1), shardlet.assign_key('m', 's2', 2);
	CREATE TABLE t (k bigint, id int, note text, PRIMARY KEY (k, id), UNIQUE (k, note) DEFERRABLE INITIALLY DEFERRED);
	SELECT shardlet.distribute('t', 'm', 'k')});

# What the shard of key 1 gets, in short, while a session runs these statements.
sub sends
{
	my ($sql) = @_;
	my $mark = $c->log_mark($shard);
	my (undef, undef, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\n$sql");
	my $log = $c->log_since($shard, $mark);

	$log =~ s/LOG:  execute \S+ BEGIN ISOLATION LEVEL ([A-Z]+)[^\n]*/LOG:  execute x BEGIN $1/g;
	return (join(' ', $log =~ /LOG:  execute \S+ (BEGIN READ|BEGIN REPEATABLE|BEGIN|COMMIT|INSERT|UPDATE|DELETE|SELECT note|SAVEPOINT|RELEASE)\b/g), $stderr);
}

sub rows { return $c->shard_sql(1, 'SELECT count(*) FROM t'); }

my ($sent, $error) = sends(q{INSERT INTO t VALUES (1, 1, 'a'); UPDATE t SET note = 'b' WHERE k = 1 AND id = 1; DELETE FROM t WHERE k = 1 RETURNING note;});
is($sent, 'INSERT UPDATE DELETE', 'three writes, in a process that had not loaded the library');
is($error, '', 'that work');
($sent, $error) = sends(q{BEGIN; INSERT INTO t VALUES (1, 1, 'a'); COMMIT; UPDATE t SET note = 'b' WHERE k = 1;});
is($sent, 'BEGIN READ INSERT COMMIT UPDATE', 'in a block, and outside');
my $inserts = 'BEGIN; p11; COMMIT; p12; p13; BEGIN; p14; ROLLBACK; p15;';
$inserts =~ s/p(\d+)/INSERT INTO t VALUES (1, $1, 'p$1')/g;
($sent, $error) = sends($inserts);
is($sent, 'BEGIN READ INSERT COMMIT INSERT INSERT BEGIN READ INSERT INSERT', 'the same statement in both ways');
is($c->sql('SELECT array_agg(id ORDER BY id) FROM t'), '{1,11,12,13,15}', 'does what it says');
($sent, $error) = sends(q{SET default_transaction_isolation = 'repeatable read'; UPDATE t SET note = 'c' WHERE k = 1 AND id = 1;});
is($sent, 'BEGIN REPEATABLE UPDATE COMMIT', 'another isolation level has to be said');

# The commit itself fails: what a constraint finds then is the statement's error.
($sent, $error) = sends(q{INSERT INTO t VALUES (1, 2, 'c'); SELECT count(*) FROM t WHERE k = 1;});
like($error, qr/23505/, 'a deferred constraint');
is($sent, 'INSERT', 'was found by the commit');
is($c->sql('SELECT count(*) FROM t WHERE k = 1 AND id = 2'), '0', 'and nothing stays');
like((sends(q{INSERT INTO t VALUES (1, 1, 'x')}))[1], qr/23505/, 'another constraint');

# In a client's pipeline only the last thing may go like that.
my $file = PostgreSQL::Test::Utils::tempdir . '/pipeline.sql';
append_to_file($file, "\\startpipeline\nINSERT INTO t VALUES (1, 3, 'pipe');\nSELECT 1 / 0;\n\\endpipeline\n");
command_fails_like([ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $file, '-d', $c->router->connstr('app') ],
	qr/division by zero/, 'two statements in one pipeline');
is($c->sql('SELECT count(*) FROM t WHERE id = 3'), '0', 'leave nothing');

# The mark, as any user may write it on a shard; \g sends no semicolon after it.
my $mark = "/* shardlet: writes */\\g\n";
my $load = "SELECT shardlet_internal.use_snapshot(0);\nSET default_transaction_read_only = on;\n";
$c->shard_sql(1, "${load}UPDATE t SET note = 'm' WHERE id = 1 $mark");
is($c->sql('SELECT note FROM t WHERE k = 1 AND id = 1'), 'm', 'lets a statement write that is a transaction');
for my $sql ("UPDATE t SET note = 'n' WHERE id = 1;", "UPDATE t SET note = 'n' /* shardlet: writes */ WHERE id = 1;",
	"BEGIN READ ONLY;\nUPDATE t SET note = 'n' WHERE id = 1 $mark", "BEGIN;\nUPDATE t SET note = 'n' WHERE id = 1 $mark",
	"SET default_transaction_isolation = 'serializable';\nUPDATE t SET note = 'n' WHERE id = 1 $mark")
{
	my (undef, undef, $stderr) = $shard->psql('app', "$load$sql", on_error_stop => 0);
	like($stderr, qr/read-only transaction/, "and not: $sql");
}

# Shards that do not let it through.
$c->shard_sql(1, q{ALTER DATABASE app SET default_transaction_isolation = 'repeatable read'});
($sent, $error) = sends(q{INSERT INTO t VALUES (1, 21, 'r'); INSERT INTO t VALUES (1, 22, 's'); INSERT INTO t VALUES (2, 23, 's');});
is($sent, 'INSERT BEGIN READ INSERT COMMIT BEGIN READ INSERT COMMIT', 'a shard with another isolation level is tried once');
is($error, '', 'which nobody notices');
$c->shard_sql(1, q{ALTER DATABASE app RESET default_transaction_isolation});
is($c->sql('SELECT count(*) FROM t WHERE id IN (21, 22, 23)'), '3', 'every row is there once');

# Reads in a transaction.
($sent, $error) = sends(q{BEGIN; SELECT note FROM t WHERE k = 1 AND id = 1; SELECT note FROM t WHERE k = 1 AND id = 1; COMMIT;});
is($sent, 'BEGIN READ SELECT note SELECT note COMMIT', 'without savepoints');
($sent, $error) = sends(q{BEGIN; SELECT note FROM t WHERE k = 1 AND id = 1; SAVEPOINT a; SELECT note FROM t WHERE k = 1 AND id = 1 AND 1 / (id - 1) > 0;
	ROLLBACK TO a; UPDATE t SET note = 'after' WHERE k = 1 AND id = 1; SELECT note FROM t WHERE k = 1 AND id = 1; COMMIT;});
like($sent, qr/^BEGIN READ SELECT note SAVEPOINT .*UPDATE SELECT note COMMIT$/, 'but for the session\'s own');
like($error, qr/22012/, 'to which it goes back');
is($c->sql('SELECT note FROM t WHERE k = 1 AND id = 1'), 'after', 'and goes on');
($sent, $error) = sends(q{BEGIN; DECLARE x CURSOR FOR SELECT note FROM t WHERE k = 1; FETCH x; CLOSE x; COMMIT;});
is($sent, 'BEGIN READ SAVEPOINT SELECT note RELEASE COMMIT', 'a cursor may be closed early');

# What another session has done to a table ends no transaction: all is prepared again.
my $both = "UPDATE t SET id = id WHERE k = 1 AND id = 1;\nSELECT note FROM t WHERE k = 1 AND id = 1;\n";
(undef, undef, my $stderr) = $c->psql_err("$both\\! psql -Xqc 'ALTER TABLE t ALTER note TYPE varchar(40)' -d \"" . $c->router->connstr('app') . "\" >/dev/null\nBEGIN;\n${both}COMMIT;");
is($stderr, '', 'a column has got another type meanwhile');

$c->destroy;
done_testing();
