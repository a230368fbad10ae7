// The features beyond services; each tells its columns, its rows and one of them in full.
export const features = [];
