/*
 * segments.c
 *		A map, cut at the borders of shardlets that may overlap.
 *
 * What router and shards know of a map may be cut differently.  To compare it, the
 * borders of all shardlets are sorted; between two of them lies a segment, which
 * each shardlet has as a whole or not at all.
 *
 * hash:	a border is a token
 * range:	a value
 * list:	each key is a segment; the default comes before them
 * spread:	each shard's shardlet is one
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "base/base.h"
#include "repair/repair.h"

/* One border.  Which fields are used depends on the kind of map. */
typedef struct Border
{
	int			infinite;		/* -1: before all others; 1: after them */
	int64		number;			/* hash: token; list: token of the key;
								 * spread: id of the shard */
	Datum		value;			/* range */
	ArrayType  *text;			/* range, list: as it is stored */
} Border;

typedef struct Borders
{
	SlMapKind	kind;
	SlKeyType  *type;			/* of a range's values */
	Border	   *items;			/* sorted; one more than segments of hash and
								 * range */
	int			count;
} Borders;

static bool
has_points(SlMapKind kind)
{
	return kind == SL_KIND_LIST || kind == SL_KIND_SPREAD;
}

static int
compare_texts(const ArrayType *a, const ArrayType *b)
{
	Size		left = a != NULL ? VARSIZE(a) : 0;
	Size		right = b != NULL ? VARSIZE(b) : 0;

	if (left != right || left == 0)
		return left < right ? -1 : left > right;
	return memcmp(a, b, left);
}

static int
compare_borders(const void *a, const void *b, void *arg)
{
	const Border *left = a;
	const Border *right = b;
	Borders    *borders = arg;

	if (left->infinite != right->infinite || left->infinite != 0)
		return left->infinite < right->infinite ? -1 : left->infinite > right->infinite;
	if (borders->kind == SL_KIND_RANGE)
		return sl_key_compare(borders->type, left->value, right->value);
	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	return borders->kind == SL_KIND_LIST ? compare_texts(left->text, right->text) : 0;
}

static const char *
single_text(const ArrayType *array)
{
	Datum	   *values;
	int			count;

	deconstruct_array((ArrayType *) array, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &count);
	if (count == 1)
		return TextDatumGetCString(values[0]);
	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}

/* The lower or upper end of a shardlet; of a list or spread map, its only point. */
static Border
border_of(const Borders *borders, const SlShardletRow *row, bool is_high)
{
	Border		border = {0};

	border.text = is_high && !has_points(borders->kind) ? row->high : row->low;
	switch (borders->kind)
	{
		case SL_KIND_HASH:
			border.number = is_high ? row->high_token : row->low_token;
			if (!(is_high ? row->has_high_token : row->has_low_token))
				border.infinite = is_high ? 1 : -1;
			break;
		case SL_KIND_RANGE:
			if (border.text == NULL)
				border.infinite = is_high ? 1 : -1;
			else
				border.value = sl_key_from_text(borders->type, single_text(border.text));
			break;
		case SL_KIND_LIST:
			border.number = row->low_token;
			border.infinite = row->is_default ? -1 : 0;
			break;
		default:
			border.number = row->shard_id;
	}
	return border;
}

static int
find_border(const Borders *borders, const Border *border)
{
	int			low = 0;
	int			high = borders->count;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (compare_borders(&borders->items[middle], border, (void *) borders) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The type of the values of a range map. */
static SlKeyType *
value_type(const SlMapRow *map)
{
	SlKeyType  *type = palloc0(sizeof(SlKeyType));
	Oid			oid = map->key_oids[0];

	if (map->via != NULL)
		oid = sl_via_init(map->via, map->key_oids, map->key_count, CurrentMemoryContext)->type;
	sl_key_type_init(type, oid, CurrentMemoryContext);
	return type;
}

static int
remove_duplicates(Borders *borders)
{
	int			count = 0;

	for (int i = 0; i < borders->count; i++)
	{
		if (count == 0 || compare_borders(&borders->items[count - 1], &borders->items[i], borders) != 0)
			borders->items[count++] = borders->items[i];
	}
	return count;
}

/* Cuts a map at the borders of shardlets, and writes into each which segments it has. */
SlSegments
sl_segments_cut(const SlMapRow *map, List *shardlets)
{
	SlSegments	result = {.map = map};
	Borders    *borders = palloc0(sizeof(Borders));
	ListCell   *cell;

	borders->kind = map->kind;
	if (map->kind == SL_KIND_RANGE)
		borders->type = value_type(map);
	borders->items = palloc(sizeof(Border) * Max(list_length(shardlets) * 2, 1));
	foreach(cell, shardlets)
	{
		const SlKnownShardlet *known = lfirst(cell);

		borders->items[borders->count++] = border_of(borders, &known->row, false);
		if (!has_points(map->kind))
			borders->items[borders->count++] = border_of(borders, &known->row, true);
	}
	qsort_arg(borders->items, borders->count, sizeof(Border), compare_borders, borders);
	borders->count = remove_duplicates(borders);
	foreach(cell, shardlets)
	{
		SlKnownShardlet *known = lfirst(cell);
		Border		low = border_of(borders, &known->row, false);
		Border		high = border_of(borders, &known->row, true);

		known->first = find_border(borders, &low);
		known->last = has_points(map->kind) ? known->first + 1 : find_border(borders, &high);
	}
	result.borders = borders;
	result.count = has_points(map->kind) ? borders->count : Max(borders->count - 1, 0);
	return result;
}

/* Returns for each segment which of these shardlets has it, or NULL.  They do not overlap. */
SlKnownShardlet **
sl_segments_assign(const SlSegments *segments, List *shardlets)
{
	SlKnownShardlet **result = palloc0(sizeof(SlKnownShardlet *) * Max(segments->count, 1));
	ListCell   *cell;

	foreach(cell, shardlets)
	{
		SlKnownShardlet *known = lfirst(cell);

		for (int i = known->first; i < known->last; i++)
			result[i] = known;
	}
	return result;
}

static const char *
border_text(const Borders *borders, int index)
{
	const Border *border = &borders->items[index];

	if (border->infinite != 0 || borders->kind == SL_KIND_SPREAD)
		return NULL;
	if (borders->kind == SL_KIND_HASH)
		return psprintf("%lld", (long long) border->number);
	return single_text(border->text);
}

/* Returns where a segment begins, as view shardlets shows it; NULL: it is unbounded, or a default. */
const char *
sl_segments_low(const SlSegments *segments, int segment)
{
	return border_text(segments->borders, segment);
}

/* Returns where it ends; NULL also for the key of a list. */
const char *
sl_segments_high(const SlSegments *segments, int segment)
{
	const Borders *borders = segments->borders;

	return has_points(borders->kind) ? NULL : border_text(borders, segment + 1);
}

/* Gives a row the bounds of some segments. */
void
sl_segments_set_bounds(const SlSegments *segments, int first, int last, SlShardletRow *row)
{
	const Borders *borders = segments->borders;
	const Border *low = &borders->items[first];
	const Border *high = &borders->items[last];

	if (has_points(borders->kind))
		return;
	row->low = low->text;
	row->high = high->text;
	if (borders->kind != SL_KIND_HASH)
		return;
	row->has_low_token = low->infinite == 0;
	row->low_token = low->number;
	row->has_high_token = high->infinite == 0;
	row->high_token = high->infinite == 0 ? high->number : 0;
}
