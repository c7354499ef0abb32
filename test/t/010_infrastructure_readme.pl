
# Every SQL snippet of README.md and of the tutorial runs, in the order of the
# text, as a reader would type it.
#
# Only blocks marked "sql" are run; blocks marked "sql-config", "sh" or anything
# else are not.  A document is one psql session.  A statement ends with its line.
# One that fails stands below a comment line "-- ERROR"; one whose answer the text
# tells ends in "-- => answer".

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# Returns the blocks of a document: { line => of its first statement, text }.
sub blocks
{
	my ($file) = @_;
	my ($fence, $line, $text, @blocks);

	for (split /^/, slurp_file("$top/$file"))
	{
		$line++;
		if (!defined $fence && /^```(\S*)\s*$/)
		{
			$fence = $1;
			push @blocks, { line => $line + 1, text => '' } if $fence eq 'sql';
		}
		elsif (/^```\s*$/)
		{
			$fence = undef;
		}
		elsif (defined $fence && $fence eq 'sql')
		{
			$blocks[-1]{text} .= $_;
		}
	}
	die "$file: a block does not end" if defined $fence;
	return @blocks;
}

# Cuts a block into statements: { line, sql, fails, answer }.
sub statements
{
	my ($block) = @_;
	my $line = $block->{line} - 1;
	my $fails = 0;
	my @statements;
	my $current;

	for (split /\n/, $block->{text})
	{
		$line++;
		if (!$current && /^\s*(?:--.*)?$/)
		{
			$fails = 1 if /^\s*-- ERROR$/;
			next;
		}
		$current //= { line => $line, sql => '', fails => $fails };
		$current->{answer} = $1 if s/\s*-- => (.*?)\s*$//;
		$current->{sql} .= "$_\n";

		# A dollar-quoted body goes on until its end.
		my $quotes = () = $current->{sql} =~ /\$\$/g;
		next if $quotes % 2 || ($current->{sql} !~ /^\s*\\/ && !/;\s*(?:--.*)?$|\\gset\b/);
		push @statements, $current;
		$current = undef;
		$fails = 0;
	}
	die "line $line: a statement does not end" if $current;
	return @statements;
}

# Machines of the text stand for servers of the test: db1 is the first shard's.
sub with_stand_ins
{
	my ($c, $sql) = @_;
	my $ports = sub { join ',', map { $c->shard($_)->port } $_[0] =~ /db(\d)/g };
	my $hosts = sub { $_[0] =~ s/db\d/127.0.0.1/gr };

	$sql =~ s/\bhost=(db\d(?:,db\d)*)/'host=' . $hosts->($1) . ' port=' . $ports->($1)/ge;
	$sql =~ s/\bhost '(db\d)'/"host '127.0.0.1', port '" . $ports->($1) . "'"/ge;
	return $sql;
}

# Runs a document in one session.  A mark on both outputs after each statement
# tells what it printed; notifications may come at any time.
sub run_document
{
	my ($c, $database, $file) = @_;
	my @statements = map { statements($_) } blocks($file);
	my $script = join '', map { with_stand_ins($c, $_->{sql}) . "\\echo <mark>\n\\warn <mark>\n" } @statements;
	my (undef, $stdout, $stderr) = $c->router->psql($database, $script, on_error_stop => 0);
	my @printed = split /<mark>\n?/, $stdout =~ s/^Asynchronous notification .*\n//mgr, -1;
	my @complaints = split /<mark>\n?/, $stderr, -1;

	cmp_ok(scalar @statements, '>', 20, "$file has snippets");
	for my $statement (@statements)
	{
		my $where = "$file:$statement->{line}";
		my $answer = shift(@printed) // '';
		my $complaint = shift(@complaints) // 'the session ended';
		my $failed = $complaint =~ /(?:ERROR|FATAL|PANIC): |the session ended|invalid command|error:/ ? 1 : 0;

		is($failed, $statement->{fails}, $where . ($statement->{fails} ? ' fails' : ' works'))
		  or diag("$statement->{sql}$complaint");
		next if !defined $statement->{answer};
		chomp $answer;
		is($answer, $statement->{answer}, "$where answers");
	}
	return;
}

my $lines = () = slurp_file("$top/README.md") =~ /\n/g;
cmp_ok($lines, '<=', 400, 'README.md is short');

# What the README takes for granted: three machines with databases and a user.
my $c = ShardletCluster->new(shards => 3, add => 0);
for my $number (1 .. 3)
{
	$c->shard($number)->safe_psql('postgres', 'CREATE DATABASE shop');
	$c->shard($number)->safe_psql('postgres', q{CREATE ROLE shardlet LOGIN SUPERUSER PASSWORD 'secret'});
}
run_document($c, 'app', 'README.md');
$c->destroy;

# The tutorial begins with a server and an empty database.
$c = ShardletCluster->new(shards => 0, add => 0);
$c->router->safe_psql('postgres', 'CREATE DATABASE shop');
run_document($c, 'shop', 'docs/tutorial.md');
$c->destroy;

done_testing();
