// What all programs print: values as JSON, without OIDs, times and the name of the database.
exports.section = name => console.log('==', name)
exports.show = (...values) => values.forEach(value => console.log('  ', JSON.stringify(value, (key, item) => typeof item === 'bigint' ? String(item) : item)
	.replace(/"\d+_\d+_(\d+_not_null)"/g, '"$1"').replace(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.(?!000Z)\d+(Z|\+00)/g, 'now').replaceAll(`"${process.env.PGDATABASE}"`, '"database"')))

// The error as the application sees it.
exports.fails = async (promise) => {
	try {
		await promise
		console.log('   no error')
	} catch (error) {
		const {name, code, constraint, table, column, detail} = error.parent || error
		exports.show([error.name === 'error' ? name : error.name, code, constraint, table, column, detail])
	}
}
