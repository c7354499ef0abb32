
# RandomExpression
#	Random expressions and conditions over columns; RandomQuery builds statements of
#	them.
#
# "scope" is a list of relations as RandomQuery describes them, "depth" how deep in an
# expression we are.  Subqueries come from RandomQuery.

package RandomExpression;

use strict;
use warnings;

use RandomSchema;

# How deep expressions are nested.
my $deepest = 3;

### Choosing

sub _pick
{
	my ($self, @list) = @_;
	return $list[ int rand @list ];
}

sub _chance
{
	my ($self, $probability) = @_;
	return rand() < $probability;
}

sub _shuffle
{
	my ($self, @list) = @_;
	my @result;
	push @result, splice @list, int rand @list, 1 while @list;
	return @result;
}

# Types for a query's columns, mostly of what is there.
sub _types
{
	my ($self, $scope) = @_;
	my @there = $self->_columns($scope);
	return map { $self->_chance(0.85) ? $self->_pick(@there)->[1] : $self->_type } 1 .. $self->_pick(1, 1, 2, 2, 3, 4);
}

sub _type
{
	my ($self) = @_;
	return $self->_pick(qw(int int int int text text text num num bool date ts mood arr doc flt));
}

### Literals and columns

# "domain" may be a type's name.
sub _value
{
	my ($self, $domain) = @_;
	return $self->_pick(@{ $RandomSchema::domain{$domain} });
}

sub _type_of_domain
{
	my ($domain) = @_;
	return $domain if $RandomSchema::sql_type{$domain};
	return $domain =~ /^(customer|small|id|acct|product)$/ ? 'int' : 'text';
}

# A value of a domain as a literal, or as a parameter.  "bare" allows what only has
# a type where it stands.
sub _literal
{
	my ($self, $domain, $bare) = @_;
	my $type = _type_of_domain($domain);
	my $cast = $RandomSchema::sql_type{$type};

	if ($self->{parameters} && $self->_chance(0.5))
	{
		push @{ $self->{types} }, $domain;
		my $number = '$' . @{ $self->{types} };
		return $bare && $self->_chance(0.6) ? $number : $number . '::' . ($type eq 'int' ? $self->_pick('bigint', 'bigint', 'int') : $cast);
	}
	return 'NULL::' . $cast if $self->_chance(0.03);
	my $value = $self->_value($domain);
	$value =~ s/'/''/g;
	return $value < 0 ? "($value)" : $value if $type eq 'int' || $type eq 'num';
	return $value eq 't' ? 'true' : 'false' if $type eq 'bool';
	return "'$value'" if $bare && $type ne 'arr' && $type ne 'doc';
	return "'$value'::$cast";
}

# Columns of a type, or all, as [expression, type, domain].
sub _columns
{
	my ($self, $scope, $type) = @_;
	my @found;

	for my $relation (@$scope)
	{
		push @found, map { [ "$relation->{alias}.$_->[0]", $_->[1], $_->[2] // $_->[1] ] } grep { !$type || $_->[1] eq $type } @{ $relation->{columns} };
	}
	return @found;
}

### Expressions

my %makers = (
	int => \&_int, num => \&_num, text => \&_text, bool => \&condition, date => \&_date, ts => \&_ts,
	mood => \&_mood, arr => \&_arr, doc => \&_doc, flt => \&_flt,
);

sub expression
{
	my ($self, $scope, $type, $depth) = @_;
	my @columns = $self->_columns($scope, $type);

	return $self->_literal($type) if !@columns && ($depth >= 2 || $self->_chance(0.4)) || $self->_chance(0.06);
	return $self->_pick(@columns)->[0] if @columns && ($depth >= 2 || $self->_chance(0.6));
	return $self->_literal($type) if $depth >= $deepest;
	if ($type ne 'bool' && $self->_chance(0.15))
	{
		my $condition = $self->condition($scope, $depth + 1);
		my ($a, $b) = map { $self->expression($scope, $type, $depth + 1) } 1, 2;
		return "(CASE WHEN $condition THEN $a" . ($self->_chance(0.7) ? " ELSE $b" : '') . ' END)';
	}
	return $self->_scalar_subquery($scope, $type, $depth) if $type ne 'bool' && !$self->{flat} && $self->_chance(0.08);
	if ($type ne 'bool' && $type ne 'doc' && $type ne 'arr' && $self->_chance(0.15))
	{
		my ($a, $b) = map { $self->expression($scope, $type, $depth + 1) } 1, 2;
		return $self->_pick("coalesce($a, $b)", "nullif($a, $b)", "greatest($a, $b)", "least($a, $b)");
	}
	return $makers{$type}->($self, $scope, $depth + 1);
}

sub _int
{
	my ($self, $scope, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth) };
	my $small = 1 + int rand 5;
	my $kind = int rand 13;

	return '(' . $of->('int') . $self->_pick(' + ', ' - ') . "$small)" if $kind == 0;
	return '(' . $of->('int') . " * $small)" if $kind == 1;
	return '(' . $of->('int') . ' % ' . ($small + 1) . ')' if $kind <= 3;
	return $self->_pick('abs', 'sign', '-') . '(' . $of->('int') . ')' if $kind == 4;
	return 'length(' . $of->('text') . ')' if $kind == 5;
	return 'extract(' . $self->_pick(qw(day month year)) . ' FROM ' . $of->($self->_pick('date', 'ts')) . ')::int' if $kind == 6;
	return '(' . $of->('arr') . ")[$small]" if $kind == 7;
	return 'cardinality(' . $of->('arr') . ')' if $kind == 8;
	return '(' . $of->('doc') . " ->> 'n')::int" if $kind == 9;
	return '(' . $of->('date') . ' - ' . $self->_literal('date') . ')' if $kind == 10;
	return 'floor(' . $of->('num') . ')::int' if $kind == 11;
	return $self->_pick('strpos(' . $of->('text') . ", 'a')", 'ascii(' . $of->('text') . ')', '(' . $of->('bool') . ')::int');
}

sub _num
{
	my ($self, $scope, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth) };

	return $self->_pick(
		sub { '(' . $of->('num') . $self->_pick(' + ', ' - ') . $of->('num') . ')' },
		sub { 'round(' . $of->('num') . ' * ' . $of->('int') . ', 2)' },
		sub { '((' . $of->('int') . ')::numeric(12,2))' },
		sub { 'round(' . $of->('num') . ' / 3, 2)' },
		sub { 'abs(' . $of->('num') . ')' },
	)->();
}

sub _text
{
	my ($self, $scope, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth) };

	return $self->_pick(
		sub { '(' . $of->('text') . ' || ' . $of->('text') . ')' },
		sub { $self->_pick(qw(upper lower initcap reverse md5 btrim)) . '(' . $of->('text') . ')' },
		sub { 'left(' . $of->('text') . ', ' . (1 + int rand 4) . ')' },
		sub { '(' . $of->($self->_pick(qw(mood date int bool))) . ')::text' },
		sub { 'to_char(' . $of->($self->_pick(qw(date ts))) . ", 'YYYY-MM')" },
		sub { "concat_ws('-', " . $of->('text') . ', ' . $of->('int') . ')' },
		sub { "format('%s/%s', " . $of->('int') . ', ' . $of->('text') . ')' },
		sub { 'replace(' . $of->('text') . ", 'a', 'o')" },
		sub { '(' . $of->('doc') . " -> 'tags' ->> 0)" },
		sub { 'array_to_string(' . $of->('arr') . ", ',', '*')" },
	)->();
}

sub _date
{
	my ($self, $scope, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth) };

	return $self->_pick(
		sub { '(' . $of->('date') . $self->_pick(' + ', ' - ') . (int rand 9) . ')' },
		sub { '(' . $of->('ts') . ')::date' },
		sub { "date_trunc('month', " . $of->('ts') . ')::date' },
	)->();
}

sub _ts
{
	my ($self, $scope, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth) };

	return $self->_pick(
		sub { '(' . $of->('ts') . " + interval '" . $self->_pick('1 day', '3 hours', '1 month', '-90 minutes') . "')" },
		sub { "date_trunc('" . $self->_pick(qw(hour day month)) . "', " . $of->('ts') . ')' },
		sub { '(' . $of->('date') . ')::timestamp' },
	)->();
}

sub _mood
{
	my ($self, $scope, $depth) = @_;
	my $a = $self->expression($scope, 'mood', $depth);
	return $self->_chance(0.5) ? "coalesce($a, 'ok')" : "nullif($a, 'sad')";
}

sub _arr
{
	my ($self, $scope, $depth) = @_;
	my $int = $self->expression($scope, 'int', $depth);
	my $array = $self->expression($scope, 'arr', $depth);
	return $self->_pick("ARRAY[($int)::int, 5]", "($array || ($int)::int)", "array_remove($array, ($int)::int)", "($array)[2:3]");
}

sub _doc
{
	my ($self, $scope, $depth) = @_;
	my $int = $self->expression($scope, 'int', $depth);
	my $doc = $self->expression($scope, 'doc', $depth);
	my $term = $self->expression($scope, 'text', $depth);
	return $self->_pick("jsonb_build_object('n', $int, 't', $term)", "($doc -> 'tags')", "to_jsonb($term)", "($doc || '{\"m\": 1}')");
}

# Quarters can be added in any order.
sub _flt
{
	my ($self, $scope, $depth) = @_;
	return $self->_pick('(' . $self->expression($scope, 'flt', $depth) . ' + 0.5::float8)', '((' . $self->expression($scope, 'int', $depth) . ')::float8 / 4)');
}

### Conditions

sub condition
{
	my ($self, $scope, $depth) = @_;
	my @all = $self->_columns($scope);
	my $chance = rand;

	return $self->_literal('bool') if !@all;
	if ($depth < $deepest)
	{
		return '(' . join($self->_pick(' AND ', ' OR ', ' OR '), map { $self->condition($scope, $depth + 1) } 1 .. 2) . ')' if $chance < 0.12;
		return 'NOT (' . $self->condition($scope, $depth + 1) . ')' if $chance < 0.15;
		return $self->_subquery_condition($scope, $depth + 1) if $chance < 0.30 && $depth < 2 && !$self->{flat};
		return '((' . $self->condition($scope, $depth + 1) . ') ' . $self->_pick('IS TRUE', 'IS NOT TRUE', 'IS UNKNOWN', 'IS NOT FALSE') . ')' if $chance < 0.32;
	}
	return $self->_key_condition($scope) if $chance < 0.45;
	return $self->_comparison($scope, $self->_pick(@all), $depth);
}

# One column with something.
sub _comparison
{
	my ($self, $scope, $column, $depth) = @_;
	my ($name, $type, $domain) = @$column;
	my $chance = rand;
	my $literal = sub { $self->_literal($domain, 1) };

	return "$name IS " . $self->_pick('', 'NOT ') . 'NULL' if $chance < 0.12;
	return $self->_pick($name, "NOT $name", "$name IS NOT TRUE", "coalesce($name, false)") if $type eq 'bool';
	return $self->_pick("$name \@> '{1}'", "3 = ANY ($name)", "cardinality($name) > 1", "$name && '{1,2}'") if $type eq 'arr';
	return $self->_pick("$name ? 'n'", "$name \@> '{\"n\": 1}'", "$name -> 'n' = '2'", "$name ->> 'n' = '3'") if $type eq 'doc';
	return "$name " . $self->_pick('IN', 'IN', 'NOT IN') . ' (' . join(', ', map { $literal->() } 1 .. $self->_pick(1, 2, 3, 5)) . ')' if $chance < 0.27;
	return "$name " . $self->_pick('= ANY', '<> ALL', '> ANY') . ' (ARRAY[' . join(', ', map { $self->_literal($domain) } 1 .. $self->_pick(1, 2, 4)) . '])' if $chance < 0.32;
	return "$name BETWEEN " . $literal->() . ' AND ' . $literal->() if $chance < 0.40;
	return "$name IS " . $self->_pick('', 'NOT ', 'NOT ') . 'DISTINCT FROM ' . $self->expression($scope, $type, $depth + 1) if $chance < 0.45;
	return "$name " . $self->_pick("LIKE '%a%'", "ILIKE 'A%'", "NOT LIKE 'n%'", "~ '^[a-c]'") if $type eq 'text' && $chance < 0.52;
	return '(' . join(', ', $name, $self->_pick($self->_columns($scope))->[0]) . ") IS " . $self->_pick('', 'NOT ') . 'NULL' if $chance < 0.525;
	return $self->expression($scope, $type, $depth + 1) . ' ' . $self->_operator . ' ' . $literal->() if $chance < 0.6;
	my $other = $self->_chance(0.6) ? $literal->() : $self->expression($scope, $type, $depth + 1);
	$other = $literal->() if $other eq $name;
	return "$name " . ($type =~ /^(num|date|ts)$/ && $self->_chance(0.6) ? $self->_pick(qw(< > <= >=)) : $self->_operator) . " $other";
}

sub _operator
{
	my ($self) = @_;
	return $self->_pick(qw(= = = = < > <= >= <>));
}

# A condition on the key of a table: one value, some, a range, none, two at once.
sub _key_condition
{
	my ($self, $scope) = @_;
	my @with_key = grep { $_->{table} && $_->{table}{key} } @$scope;
	my $relation = $self->_pick(@with_key) // return $self->_comparison($scope, $self->_pick($self->_columns($scope)), $deepest);
	my @conditions;

	for my $key (@{ $relation->{table}{key} })
	{
		my ($column) = grep { $_->[0] eq "$relation->{alias}.$key" } $self->_columns([$relation]);
		next if !$column;
		my ($name, undef, $domain) = @$column;
		my $literal = sub { $self->_literal($domain, 1) };
		my $chance = rand;

		push @conditions,
			$chance < 0.55 ? $self->_pick("$name = " . $literal->(), $literal->() . " = $name")
			: $chance < 0.70 ? "$name IN (" . join(', ', map { $literal->() } 1 .. $self->_pick(1, 1, 2, 3)) . ')'
			: $chance < 0.75 ? "$name = ANY (ARRAY[" . join(', ', map { $self->_literal($domain) } 1 .. $self->_pick(1, 2, 3)) . '])'
			: $chance < 0.83 ? "$name BETWEEN " . $literal->() . ' AND ' . $literal->()
			: $chance < 0.87 ? "$name = " . $literal->() . " AND $name = " . $literal->()
			: $chance < 0.90 ? "($name = " . $literal->() . " OR $name = " . $literal->() . ')'
			: $chance < 0.92 ? "$name = NULL"
			: $chance < 0.96 ? "$name = (SELECT " . $self->_literal($domain) . ')'
			: "$name " . $self->_pick('<', '>=') . ' ' . $literal->();
	}
	return @conditions ? '(' . join(' AND ', @conditions) . ')' : 'true';
}

1;
